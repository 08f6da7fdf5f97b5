import { MAX_HEADER_BYTES } from './front-end.js';

// uWebSockets.js reads its settings from the environment once, when its binary is loaded, so import this file first.
// Without this setting, it accepts headers of any length in one packet, but only 4 KiB in several.
process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= String(MAX_HEADER_BYTES);
