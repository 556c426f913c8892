"""What runs in the process of a program that is predicted."""
