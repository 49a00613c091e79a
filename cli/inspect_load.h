// Finds and reads what is to be shown: a checkpoint's folder, or one image.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/reader.h"
#include "common/schema/manifest.h"
#include "resources/schema/image.h"

namespace cairn::inspect {

struct LoadedProcess {
    std::string path;
    std::int32_t part = 0;
    ImageReader reader;
    schema::Process process;

    [[nodiscard]] std::uint64_t mapped() const;  // bytes of address space
    [[nodiscard]] std::uint64_t stored() const;  // bytes of its pages in the image
    // The arguments, as ps shows them; the name in brackets if they can't be read from the image.
    [[nodiscard]] std::string command() const;
};

struct LoadedObjects {
    std::string path;
    std::int32_t part = 0;  // 0: it serves all parts
    ImageReader reader;
    schema::Objects objects;
};

struct Checkpoint {
    std::string folder;  // "" for a single image outside of a checkpoint
    std::optional<schema::Manifest> manifest;
    std::vector<LoadedProcess> processes;
    std::vector<LoadedObjects> objects;
    std::vector<Error> problems;  // images that can't be read; the others are shown all the same

    // nullptr if there is none.
    [[nodiscard]] const schema::Object* object(std::int32_t part, std::int64_t id) const;
};

// `path`: an image; a folder with manifest.json; or one with `latest` in it, or with numbered generations.
[[nodiscard]] Result<Checkpoint> load(const std::string& path);

// Checks every page of every image. Each damaged image is a problem; returns the bytes that were read.
std::uint64_t verify(Checkpoint& checkpoint);

// Bytes of the process's memory that the image holds; nullopt if part of them isn't in it.
[[nodiscard]] std::optional<std::string> read_memory(const LoadedProcess& process, ProgramAddress address,
                                                     std::size_t length);

}  // namespace cairn::inspect
