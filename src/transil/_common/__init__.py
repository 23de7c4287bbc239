"""What every room needs: arrays, files, settings read by types, names, provenance."""
