// System V shared memory, semaphores and message queues. They outlive the processes that use them: what is
// still there after a kill is brought back to what it was, the rest is made again, by its old id where the
// kernel allows it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/image/reader.h"
#include "common/ipc_map.h"
#include "common/schema/process.h"
#include "resources/schema/object.h"

namespace cairn::restart {

[[nodiscard]] bool is_system_v(const schema::Object& object);

class SystemV {
  public:
    SystemV() = default;
    SystemV(SystemV&&) noexcept = default;
    SystemV& operator=(SystemV&&) noexcept = default;
    ~SystemV() = default;

    // Work in the IPC namespace of the group's own that this object is.
    using InSpace = std::function<Result<>(std::int64_t space, const std::function<Result<>()>& work)>;

    // All of them, with their contents; ids that differ are bound in `map`. Errors (ExitCode::refused) name
    // key and id. Notes say whose contents were put back for others as well.
    [[nodiscard]] Result<> open_all(const schema::Objects& objects, const ImageReader& image, IpcMap& map,
                                    const InSpace& in_space, std::vector<std::string>& notes);

    // The kernel's id of a segment; -1: there is none of this object's.
    [[nodiscard]] int segment(std::int64_t object) const;
    [[nodiscard]] std::uint64_t size(std::int64_t object) const;  // of a segment, bytes: whole pages of its
    [[nodiscard]] std::uint64_t page(std::int64_t object) const;  // of a segment, bytes
    // Is it in an IPC namespace of the group's own, which who attaches it has to be in?
    [[nodiscard]] bool is_in_own(std::int64_t object) const;
    // The one that those of the process are in, if it is such a one: they have the ids that the programs
    // know.
    [[nodiscard]] std::optional<std::int64_t> own_space_of(const schema::Process& process) const;

    // Once the processes have attached them: those that had been removed already.
    [[nodiscard]] Result<> attached(const InSpace& in_space);
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
        std::optional<std::int64_t>
            space{};  // it is in an IPC namespace of the group's own, and ends with it
    };
    struct Opening;
    std::vector<One> all_;
};

}  // namespace cairn::restart
