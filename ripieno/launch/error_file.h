// The file in which a process that torchrun started leaves its error, so that torchrun names the cause of a failed job
// (TORCHELASTIC_ERROR_FILE; the form is that of torch.distributed.elastic.multiprocessing.errors).
#pragma once

#include "ripieno/core/error.h"

namespace ripieno::launch {

/// Does nothing where no such file is asked for, or it cannot be written: the error itself is what counts.
void write_error_file(const Error& error);

}  // namespace ripieno::launch
