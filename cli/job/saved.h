// The checkpoints in the folder of a job or a service: FOLDER/COMPUTATION/GENERATION.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/manifest.h"

namespace cairn::job {

struct Saved {
    std::string folder;
    schema::Manifest manifest;
};

// Those whose manifest can be read, the newest first: of one computation by their numbers, and before the
// others the computation to which `latest` leads. A machine's clock may have been set back between two of
// them, and a machine that has just booted may not know the time yet. `damaged` gets a sentence for each
// whose manifest can't be read.
[[nodiscard]] std::vector<Saved> saved_below(const std::string& folder, std::vector<std::string>& damaged);

// The newest that is whole. With `verify` each page is read and its checksum compared. `notes` says what is
// wrong with newer ones.
[[nodiscard]] std::optional<Saved> newest_good(const std::string& folder, bool verify,
                                               std::vector<std::string>& notes);

// "checkpoint 3 of 2026-11-23 19:50:01, 12.3 MiB"
[[nodiscard]] std::string describe(const Saved& saved);

}  // namespace cairn::job
