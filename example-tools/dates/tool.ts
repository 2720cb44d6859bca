// Calculations with dates, which models get wrong.

import { tool, ToolError } from "fumehood-tool";
import { add, addBusinessDays, differenceInBusinessDays, differenceInCalendarDays, format, isValid, parseISO } from "date-fns";
import { formatDuration, getISOWeek, intervalToDuration } from "date-fns";

const date = { type: "string", description: "A date, such as 2026-02-28.", pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" } as const;
const claims = { readOnly: true, destructive: false, idempotent: true, openWorld: false };

function parse(text: string): Date {
  const parsed = parseISO(text);
  if (!isValid(parsed)) {
    throw new ToolError(`${text} is not in the calendar; give a date that exists`, "invalid_arguments");
  }
  return parsed;
}

const describe = (day: Date) => ({ date: format(day, "yyyy-MM-dd"), weekday: format(day, "EEEE"), week: getISOWeek(day) });

export const shift = tool({
  name: "shift",
  title: "Shift a date",
  description: "Returns the date before or after another one, with its weekday and its week. All numbers may be negative.",
  input: {
    type: "object",
    properties: {
      from: date,
      years: { type: "integer" },
      months: { type: "integer" },
      days: { type: "integer" },
      business_days: { type: "integer", description: "From Monday to Friday; counted last." },
    },
    required: ["from"],
  },
  ...claims,
  run({ from, years = 0, months = 0, days = 0, business_days = 0 }) {
    return describe(addBusinessDays(add(parse(from), { years, months, days }), business_days));
  },
});

export const between = tool({
  name: "between",
  title: "Time between dates",
  description: "Returns the time from one date to another, in days, business days and words.",
  input: { type: "object", properties: { from: date, to: date }, required: ["from", "to"] },
  ...claims,
  run({ from, to }) {
    const start = parse(from);
    const end = parse(to);
    const words = formatDuration(intervalToDuration({ start, end })) || "0 days";
    return { days: differenceInCalendarDays(end, start), business_days: differenceInBusinessDays(end, start), words };
  },
});
