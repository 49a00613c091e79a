// Shared memory is copied while the programs run: a fork doesn't copy it, so what has changed since has to be
// written while they stand still, and only that (docs/decisions/0043-shared-memory.md).
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <span>

#include "resources/memory/capture.h"
#include "resources/memory/capture_contents.h"

namespace cairn::capture {

// What was copied; nothing of an IPC namespace of the programs' own.
class CopiedMemory {
  public:
    // Null: nothing of it was.
    [[nodiscard]] InodeContents* find(const MemoryKey& key);
    [[nodiscard]] InodeContents& of(const MemoryKey& key, ImageWriter& writer);
    [[nodiscard]] std::uint64_t written() const;  // bytes, of all

  private:
    std::map<MemoryKey, std::unique_ptr<InodeContents>> all_;
};

// Whether these processes have so much shared memory mapped that it is worth it.
[[nodiscard]] bool has_much_shared_memory(std::span<const pid_t> pids);

// All that they have mapped of such memory, as it is now; what was copied before is brought up to date. What
// can't be read is left for the pause. Errors: the image can't be written, and those of `told`, which is
// called now and then with the bytes that were looked at.
[[nodiscard]] Result<> copy_memory_ahead(std::span<const pid_t> pids, ImageWriter& writer,
                                         CopiedMemory& copied,
                                         const std::function<Result<>(std::uint64_t)>& told);

}  // namespace cairn::capture
