// A place in the session's table of processes, had before the program is executed: whether there is one left
// is known while somebody can still say so.
#pragma once

#include <cstdint>
#include <string>

namespace cairn::cli {

class Place {
  public:
    // The slot is this process's, whose next image takes it. Waits a moment for one where all are in use: who
    // has ended is taken out of the table by the coordinator.
    // `loads_library`: else nobody but us registers it, and a checkpoint gives it the library.
    Place(const std::string& region, bool loads_library);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // Gives it back: there is no next image.
    ~Place();

    // How many places there are if all of them are taken, else 0. Also 0 where the region can't be read or is
    // of another version, or the coordinator in another pid namespace: then it is for the program's
    // libcairn.so to see.
    [[nodiscard]] std::uint32_t taken() const { return taken_; }

  private:
    void* region_ = nullptr;
    std::int32_t slot_ = -1;
    std::uint32_t taken_ = 0;
};

}  // namespace cairn::cli
