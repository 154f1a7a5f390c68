"""Settings of hypothesis: the same examples at every run, and no failure because a machine is slow."""

from hypothesis import HealthCheck, settings

settings.register_profile("project", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("project")
