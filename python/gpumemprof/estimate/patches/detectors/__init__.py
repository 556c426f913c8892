"""Libraries of object detection."""
