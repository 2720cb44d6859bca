"""The weather of the next days, from Open-Meteo."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

from fumehood_tool import ToolError, http, tool

PLACES = "https://geocoding-api.open-meteo.com/v1/search"
FORECASTS = "https://api.open-meteo.com/v1/forecast"
VALUES = ["temperature_2m_min", "temperature_2m_max", "precipitation_sum"]


@dataclass
class Day:
    day: date
    lowest_celsius: float
    highest_celsius: float
    rain_mm: float


@dataclass
class Forecast:
    place: str
    country: str | None
    days: list[Day]


@tool(title="Forecast", read_only=True, open_world=True)
def forecast(
    place: Annotated[str, {"minLength": 2, "maxLength": 100}],
    days: Annotated[int, {"minimum": 1, "maximum": 16}] = 3,
) -> Forecast:
    """Returns the weather of the next days at a place, in its own time zone.

    Args:
        place: The name of a city or a village, or a postal code.
        days: The number of days; the first one is today.
    """
    found = get(PLACES, name=place, count=1).get("results")
    if not found:
        raise ToolError(f"no place is named `{place}`; try a larger place nearby", "invalid_arguments")
    spot = found[0]
    daily = get(
        FORECASTS,
        latitude=spot["latitude"],
        longitude=spot["longitude"],
        daily=",".join(VALUES),
        timezone="auto",
        forecast_days=days,
    )["daily"]
    rows = zip(daily["time"], *(daily[name] for name in VALUES), strict=True)
    return Forecast(spot["name"], spot.get("country"), [Day(date.fromisoformat(day), *row) for day, *row in rows])


def get(url: str, **params: Any) -> Any:
    return http.get(url, params=params).raise_for_status().json()
