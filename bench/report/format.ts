/** Formats a number for tables: three significant digits, thousands with commas, bytes in MB. */
export function formatValue(value: number, unit: string): string {
  switch (unit) {
    case 'bytes':
      return Math.abs(value) >= 1e6
        ? `${trim(value / 1e6)} MB`
        : Math.abs(value) >= 1e4
          ? `${trim(value / 1e3)} kB`
          : `${trim(value)} B`;
    case 'ratio':
      return `${trim(100 * value)} %`;
    case 'count':
      return trim(value);
    case '1/s':
      return `${trim(value)} /s`;
    default:
      return `${trim(value)} ${unit}`;
  }
}

function trim(value: number): string {
  return value.toLocaleString(
    'en-GB',
    value >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 },
  );
}
