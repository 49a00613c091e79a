// The checkpoints in a job's folder: FOLDER/COMPUTATION/GENERATION.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/schema/manifest.h"

namespace cairn::slurm {

struct Saved {
    std::string folder;
    schema::Manifest manifest;
};

// Those whose manifest can be read, the newest first. `damaged` gets a sentence for each of the others.
[[nodiscard]] std::vector<Saved> saved_below(const std::string& folder, std::vector<std::string>& damaged);

// The newest that is whole. With `verify` each page is read and its checksum compared. `notes` says what is
// wrong with newer ones.
[[nodiscard]] std::optional<Saved> newest_good(const std::string& folder, bool verify,
                                               std::vector<std::string>& notes);

// "checkpoint 3 of 2026-11-23 19:50:01, 12.3 MiB"
[[nodiscard]] std::string describe(const Saved& saved);

}  // namespace cairn::slurm
