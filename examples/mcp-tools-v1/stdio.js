import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { weatherServer } from './weather-server.js';

await weatherServer().connect(new StdioServerTransport());
