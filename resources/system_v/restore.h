// System V shared memory, semaphores and message queues. They outlive the processes that use them: what is
// still there after a kill is brought back to what it was, the rest is made again, by its old id where the
// kernel allows it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/reader.h"
#include "common/ipc_map.h"
#include "resources/schema/object.h"

namespace cairn::restart {

[[nodiscard]] bool is_system_v(const schema::Object& object);

class SystemV {
  public:
    SystemV() = default;
    SystemV(SystemV&&) noexcept = default;
    SystemV& operator=(SystemV&&) noexcept = default;
    ~SystemV() = default;

    // All of them, with their contents; ids that differ are bound in `map`. Errors (ExitCode::refused) name
    // key and id. Notes say whose contents were put back for others as well.
    [[nodiscard]] Result<> open_all(const schema::Objects& objects, const ImageReader& image, IpcMap& map,
                                    std::vector<std::string>& notes);

    // The kernel's id of a segment; -1: there is none of this object's.
    [[nodiscard]] int segment(std::int64_t object) const;
    [[nodiscard]] std::uint64_t size(std::int64_t object) const;  // of a segment, bytes: whole pages of its
    [[nodiscard]] std::uint64_t page(std::int64_t object) const;  // of a segment, bytes

    // Once the processes have attached them: those that had been removed already.
    void attached();
    // Of a restart that is given up.
    void undo();

  private:
    struct One {
        IpcKind kind = IpcKind::memory;
        std::int32_t id = 0, real = 0;  // as the programs know it, as the kernel does
        bool created = false;           // by this restart; else it had outlived the programs
        bool removed = false;           // a segment that goes when the last has detached it
        std::int64_t object = -1;
        std::uint64_t size = 0, page = 0;
    };
    struct Opening;
    std::vector<One> all_;
};

}  // namespace cairn::restart
