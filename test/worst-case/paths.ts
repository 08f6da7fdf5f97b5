import { openDescribedPath, openGatePath, openGrpcPath } from './gate-path.js';
import { openListPath } from './list-path.js';
import type { Path } from './family.js';
import { openGuardPath, openSignPath } from './relay-path.js';
import { openVerifyPath, type Call } from './verify-path.js';

/** Opens the code that reads a family's bodies, with empty caches. */
export async function openPath(path: Path): Promise<(bytes: Buffer) => Promise<Call>> {
  switch (path) {
    case 'verify':
      return openVerifyPath();
    case 'gate':
      return openGatePath();
    case 'described':
      return openDescribedPath();
    case 'grpc':
      return openGrpcPath();
    case 'guard':
      return openGuardPath();
    case 'sign':
      return openSignPath();
    case 'list':
      return openListPath();
  }
}
