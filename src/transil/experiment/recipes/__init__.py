"""The experiments of the package, one YAML file each (see `transil.experiment.recipe`)."""
