"""Ranks that compile alike: agreement, one capture for all, graphs cut along DDP's buckets."""
