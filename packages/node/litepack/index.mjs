export { getLoadablePath, getCommandPath, load, register } from "./index.js";
