import type { GrpcContext, GrpcFrontEnd } from './server.js';

/**
 * Opens the gRPC front end. It needs optional packages, which are only loaded here.
 *
 * @throws Error if they are not installed
 */
export async function openGrpc(context: GrpcContext): Promise<GrpcFrontEnd> {
  let loaded: typeof import('./server.js');
  try {
    loaded = await import('./server.js');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error(
      'GRPC_PORT is set, but @grpc/grpc-js or protobufjs is not installed: install the optional dependencies ' +
        '(npm install without --omit=optional), or unset GRPC_PORT',
      { cause: error },
    );
  }
  return loaded.openServer(context);
}
