//! Agents with scripted models.
