"""A module that works while it is imported: the import system's own functions lie in between."""
import imported  # through C
