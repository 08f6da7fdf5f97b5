/**
 * Loads the gRPC front end. It needs packages that are optional peers, which are only loaded here.
 *
 * @throws Error if they are not installed, which says how to add them
 */
export async function loadGrpc(): Promise<typeof import('./server.js')> {
  try {
    return await import('./server.js');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Error(
      'GRPC_PORT is set, but @grpc/grpc-js or protobufjs is not installed; ' +
        '`npm install @grpc/grpc-js@1.14.7 protobufjs@7.6.6` adds them, or unset GRPC_PORT',
      { cause: error },
    );
  }
}
