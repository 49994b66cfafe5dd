"""The whole map: the region cut into tiles, explored, put together, asked, saved, and checked."""
