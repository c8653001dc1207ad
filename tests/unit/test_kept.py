"""The templates of a group as its record keeps them, and back: members are rendered from them as they were."""

from __future__ import annotations
