// The images of ranks that are in DIR/debug/images: checkpoints of their copies, made by cairn's own
// commands, for a debugger that opens the same record later.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fd.h"
#include "mpi/debug/process.h"

namespace cairn::mpi::debug {

struct Image {
    int rank = 0;
    Spot spot;
    std::uint64_t event = 0;                 // calls before
    double at = 0;                           // seconds of running from the program's start
    std::array<std::uint64_t, 2> written{};  // bytes of its output and of its errors before
    std::array<std::uint64_t, 2> name{};     // of the socket at which its copy looks for a debugger
    std::uint64_t bytes = 0;                 // on the disk
    std::string folder;
};

class ImageStore {
  public:
    // `mark`: images with another one are of another record, program or cairn. `making`: they are removed,
    // and new ones may be added, unless another debugger does so. `notes` gets a line for each thing that the
    // user should know. `beginnings`: of each rank, where its record begins; none: at its beginning.
    ImageStore(std::string folder, const std::string& mark, bool making, std::string& notes,
               std::vector<Spot> beginnings = {});

    [[nodiscard]] bool making() const { return static_cast<bool>(lock_); }
    [[nodiscard]] bool empty() const { return images_.empty(); }
    // By rank, then by spot.
    [[nodiscard]] const std::vector<Image>& images() const { return images_; }
    // The last one of that rank at or before; none unless there is one of its beginning: all are of the
    // process that this one was.
    [[nodiscard]] const Image* last(int rank, const Spot& spot) const;
    [[nodiscard]] bool has_beginning(int rank) const;
    [[nodiscard]] Spot beginning(int rank) const;
    [[nodiscard]] std::uint64_t bytes() const;

    // Where a new one is to be made: an empty folder that is none yet.
    [[nodiscard]] Result<std::string> begin();
    // When the checkpoint there was finished, in seconds by the clock on the wall.
    [[nodiscard]] double made_at() const;
    // What is there is whole: from now on it is one. Of more than `most` bytes those go that leave the
    // smallest gaps. True: it is still there.
    [[nodiscard]] Result<bool> add(Image image, std::uint64_t most);
    // It can't be brought back. That of the beginning takes all of its rank along; where a record begins
    // later, it stays on the disk, since nothing else leads to what is left.
    void forget(const Image& image);
    // From now on the record of each rank begins there; all images but those of these spots go.
    void begin_at(std::vector<Spot> beginnings);

  private:
    void read();
    void keep_those_of_beginnings();
    void thin_out(std::uint64_t most);

    std::string folder_, new_;
    std::vector<Spot> beginnings_;
    std::vector<Image> images_;
    Fd lock_;
};

}  // namespace cairn::mpi::debug
