// Copy buttons of the pages of a job.

import { copyable } from "./copy.js";

copyable(document);
