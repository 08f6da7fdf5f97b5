import { isPlaceable, showDate, showSpan } from '../shared/time.js';
import { numberClaim, type Token } from './decode.js';
import { percent, type Domain } from './time.js';

/** The one axis over all windows. */
export function TimeAxis({ domain, now }: { readonly domain: Domain; readonly now: number }) {
  const at = percent(domain, now);
  // Of hours, two equal dates say nothing.
  const isShort = domain.to - domain.from < 2 * 86_400;
  const edge = (seconds: number) => (isShort ? showDate(seconds).slice(5) : showDate(seconds).slice(0, 10));
  return (
    <div class="axis" aria-hidden="true">
      <span>{edge(domain.from)}</span>
      <b style={{ left: `${at}%` }} class={at > 80 ? 'late' : at < 20 ? 'early' : ''}>
        now
      </b>
      <span>{edge(domain.to)}</span>
    </div>
  );
}

/** When one receipt is valid, on the axis; for an invocation, when it was signed. */
export function Window({
  token,
  domain,
  now,
}: {
  readonly token: Token;
  readonly domain: Domain;
  readonly now: number;
}) {
  const [nbf, exp, iat] = ['nbf', 'exp', 'iat'].map((name) => numberClaim(token, name)) as [
    number | null,
    number | null,
    number | null,
  ];
  const isPoint = nbf === null;
  const start = isPoint ? iat : nbf;
  if (!isPlaceable(start)) return <div class="window" />;
  const isOpen = isPoint || (now >= start && now <= (exp ?? Infinity));
  const from = percent(domain, start);
  const to = isPoint ? from : percent(domain, isPlaceable(exp) ? exp : domain.to);
  const words = isPoint
    ? `signed ${showSpan(now - start)} ${now < start ? 'from now' : 'ago'}`
    : wordsOf(start, exp, now);
  const title = isPoint ? showDate(start) : `${showDate(start)} to ${showDate(exp)}`;
  return (
    <div class="window" title={title}>
      <svg width="100%" height="14" role="img" aria-label={`Valid: ${title}`}>
        <line class="base" x1="0" x2="100%" y1="7" y2="7" />
        {isPoint ? (
          <circle class="point" cx={`${from}%`} cy="7" r="4.5" />
        ) : (
          <rect
            class={isOpen ? 'open' : 'closed'}
            x={`${from}%`}
            width={`${Math.max(0.8, to - from)}%`}
            y="3"
            height="8"
            rx="3"
          />
        )}
        <line class="now" x1={`${percent(domain, now)}%`} x2={`${percent(domain, now)}%`} y1="0" y2="14" />
      </svg>
      <span class={isOpen ? 'words' : 'words bad'}>{words}</span>
    </div>
  );
}

function wordsOf(nbf: number, exp: number | null, now: number): string {
  if (now < nbf) return `begins in ${showSpan(nbf - now)}`;
  if (exp === null) return 'never expires';
  return now > exp ? `expired ${showSpan(now - exp)} ago` : `${showSpan(exp - now)} left`;
}
