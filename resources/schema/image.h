// The objects image of a checkpoint, read and checked for what the rest of cairn relies on.
#pragma once

#include <string>

#include "common/image/reader.h"
#include "resources/schema/object.h"

namespace cairn {

struct ObjectsImage {
    ImageReader reader;
    schema::Objects objects;
};
// Errors: ExitCode::damaged, naming file and field.
[[nodiscard]] Result<ObjectsImage> open_objects_image(const std::string& path);

}  // namespace cairn
