"""The recipes of the package, one YAML file each (see `transil.engine.recipes`)."""
