// Files that are cut back to what they were at the checkpoint: what a program has appended since it appends
// again. The kernel doesn't tell who has written what, so whatever is cut is put aside first
// (docs/decisions/0012-names.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "resources/restore/access.h"
#include "resources/restore/rights.h"

namespace cairn::restart {

// "" if all that tells says that nobody but those who had it has appended to the file: it was nobody's
// standard output, as the logs are that several programs share; no other user may write it; and nobody has it
// open for writing now. Else who may have.
[[nodiscard]] std::string who_else_appends(const schema::Object& object, const FoundFile& found,
                                           const Access& access);

struct Cut {
    Fd file;  // for reading and writing
    std::string path;
    std::uint64_t size = 0;  // what stays
    Rights rights;           // of who had it: what is put aside is his
};

// Copies what is behind `size` to PATH.cut-N (in `directory` if there is no room or right beside the file),
// and cuts the file once the copy is on the disk. What others append meanwhile is copied as well. Returns
// where it is, "" if there was nothing to cut. Errors: nothing has been cut.
[[nodiscard]] Result<std::string> cut_back(const Cut& cut, const std::string& directory);

}  // namespace cairn::restart
