"""The banks of the package, one JSON file each (see `transil.correction.shipped`)."""
