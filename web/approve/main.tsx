import { render } from 'preact';
import { Approve } from './approve.js';
import { Register } from './register.js';

const isRegister = location.pathname.endsWith('/register');
if (isRegister) document.title = 'Register a passkey – drs-verify';
const root = document.getElementById('app');
if (root !== null) render(isRegister ? <Register /> : <Approve />, root);
