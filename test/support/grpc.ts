import {
  credentials,
  loadPackageDefinition,
  Metadata,
  type CallOptions,
  type ChannelCredentials,
  type ChannelOptions,
  type Client,
  type GrpcObject,
  type ServiceClientConstructor,
  type ServiceError,
} from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import type { RunningService } from './service.js';

/** Clients of the gRPC services. They use the definitions of Envoy and agentgateway, not ours. */

// By the folder in which tests run: compiled ones are somewhere else.
const XDS = `${process.cwd()}/node_modules/@grpc/grpc-js-xds/deps/`;
const OURS = `${process.cwd()}/test/service/grpc/`;

/** The definitions in `test/service/grpc/*.proto`, and those of Envoy. */
export const DEFINITIONS: PackageDefinition = loadSync(
  ['envoy/service/auth/v3/external_auth.proto', `${OURS}health.proto`],
  {
    includeDirs: ['envoy-api', 'googleapis', 'protoc-gen-validate', 'xds'].map((folder) => XDS + folder),
    keepCase: true,
    longs: Number,
    enums: String,
    oneofs: true,
    arrays: true,
  },
);

const packages = loadPackageDefinition(DEFINITIONS);

/** Makes a client of a service by its full name. */
export function clientOf(
  service: string,
  port: number,
  options: ChannelOptions = {},
  trusted: ChannelCredentials = credentials.createInsecure(),
): Client {
  const found = service.split('.').reduce<GrpcObject | undefined>(
    // Each step leads to a package; the last one to a service.
    (place, name) => place?.[name] as GrpcObject | undefined,
    packages,
  );
  const Made = found as unknown as ServiceClientConstructor;
  // A proxy of the environment is for other addresses.
  return new Made(`127.0.0.1:${port}`, trusted, { 'grpc.enable_http_proxy': 0, ...options });
}

/** Calls a method. Rejects with the gRPC error. */
export function callOnce(
  client: Client,
  method: string,
  message: object,
  options: CallOptions = {},
  metadata = new Metadata(),
): Promise<Record<string, unknown>> {
  const unary = (client as unknown as Record<string, unknown>)[method] as (
    message: object,
    metadata: Metadata,
    options: CallOptions,
    done: (error: ServiceError | null, answer: Record<string, unknown>) => void,
  ) => void;
  return new Promise((resolve, reject) => {
    unary.call(client, message, metadata, { deadline: Date.now() + 20_000, ...options }, (error, answer) =>
      error === null ? resolve(answer) : reject(error),
    );
  });
}

/** The port on which a service speaks gRPC. */
export function grpcPortOf({ log }: RunningService): number {
  const port = log.find(({ msg }) => msg === 'listening')?.['grpcPort'];
  if (typeof port !== 'number') throw new Error('the service does not listen for gRPC');
  return port;
}

export const AUTHORIZATION = 'envoy.service.auth.v3.Authorization';
export const HEALTH = 'grpc.health.v1.Health';
