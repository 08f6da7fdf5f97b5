import { useEffect, useState } from 'preact/hooks';

/** The clock in Unix seconds, which goes on. */
export function useClock(): number {
  const [clock, setClock] = useState(() => Math.floor(Date.now() / 1000));
  useEffect(() => {
    const timer = setInterval(() => setClock(Math.floor(Date.now() / 1000)), 10_000);
    return () => clearInterval(timer);
  }, []);
  return clock;
}
