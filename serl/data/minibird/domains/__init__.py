"""The databases of the embedded benchmark: twelve that are trained on and four that never are."""

from __future__ import annotations

from serl.data.minibird.domains import community, culture, services, sport, trade, unseen

SEEN = (
    community.CLINIC, community.SCHOOL, community.LIBRARY, services.BANK, services.HOTEL, services.AIRLINE,
    trade.SHOP, trade.WINE, culture.MUSIC, culture.MUSEUM, sport.RACING, sport.FOOTBALL,
)
UNSEEN = (unseen.FILM, unseen.WEATHER, unseen.POWER, unseen.GYM)
