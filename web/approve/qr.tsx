import { correction, generate } from 'lean-qr/nano';

/** The quiet zone that readers need, in modules. */
const MARGIN = 4;

/** An address as a QR code: so that somebody says yes on a device that their agent does not drive. */
export function QrCode({ address }: { readonly address: string }) {
  const code = generate(address, { minCorrectionLevel: correction.M });
  const modules = Array.from({ length: code.size ** 2 }, (_, at) => [
    at % code.size,
    Math.floor(at / code.size),
  ]);
  const path = modules.flatMap(([x = 0, y = 0]) => (code.get(x, y) ? `M${x} ${y}h1v1h-1z` : [])).join('');
  const size = code.size + 2 * MARGIN;
  return (
    <svg
      class="qr"
      viewBox={`${-MARGIN} ${-MARGIN} ${size} ${size}`}
      role="img"
      aria-label="QR code of the address of this page"
    >
      <rect x={-MARGIN} y={-MARGIN} width={size} height={size} />
      <path d={path} />
    </svg>
  );
}
