"""Pictures of the plane of costs."""
