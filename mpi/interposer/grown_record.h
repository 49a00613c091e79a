// A rank that comes back from an image has the record as it was when the image was made, and it may have
// grown since: the job still ran.
#pragma once

#include "common/error.h"

namespace cairn::mpi {

// Opens it again, if there is more of it now, and goes on where this rank was. What seemed not to come any
// more may be there: the end of a row of foreseen calls or of tests that said no, the message of a receive
// that is open. Code damaged: it isn't the same record any more.
[[nodiscard]] Result<> take_up_grown_record();

}  // namespace cairn::mpi
