import { MAX_HEADER_BYTES } from './front-end.js';

// uWebSockets.js reads its settings from the environment once, while its binary is loaded: import this file before it.
// Without this one it takes a header of any length in one packet, but no more than 4 KiB in several.
process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(MAX_HEADER_BYTES);
