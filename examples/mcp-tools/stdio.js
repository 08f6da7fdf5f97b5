import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { weatherServer } from './weather-server.js';

serveStdio(weatherServer);
