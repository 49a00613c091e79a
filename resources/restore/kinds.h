// What a restart does with the kinds of objects that resources/kinds.h lists.
#pragma once

#include "resources/restore/opening.h"

namespace cairn::restart {

// Opens all objects, one kind after the other.
[[nodiscard]] Result<> open_kinds(Opening& opening);

// When the processes are there.
[[nodiscard]] Result<> set_up_kind(const schema::Object& object, int fd, AfterForest& after);

// Does it watch others? Then it begins last of all.
[[nodiscard]] bool is_watcher(const schema::Object& object);
[[nodiscard]] Result<> begin_watching(const schema::Object& object, int fd, const ObjectSetOptions& options,
                                      const FindObject& find);

}  // namespace cairn::restart
