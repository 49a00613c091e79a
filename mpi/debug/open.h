// A record that is opened to be debugged, for whoever is in front: the console or an editor.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/fd.h"
#include "mpi/debug/alone_world.h"
#include "mpi/record/format.h"
#include "mpi/tool/options.h"

namespace cairn::mpi::debug {

// What the MPI of a rank leaves behind that is killed (Open MPI: folders): removed at the end.
class Scratch {
  public:
    // Removes those that debuggers of this user have left that were killed.
    explicit Scratch(int ranks);
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();
    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    std::string path_;
    Fd held_;  // locked: it is in use
};

class Opened {
  public:
    // Reads the record in options.folder and gets its trace, for which each rank may have to run once: `note`
    // is told so before. Code refused: the record has no contents, or a rank doesn't begin; usage: this is a
    // process of an MPI job itself. With the verb `trim` the trace is the recorded one, of a job that may
    // still run, and images are made when they are asked for.
    [[nodiscard]] static Result<std::unique_ptr<Opened>> open(
        const tool::Options& options, const Show& show, const std::function<void(const std::string&)>& note);

    [[nodiscard]] AloneWorld& world() { return world_; }
    [[nodiscard]] const Identity& identity() const { return identity_; }
    [[nodiscard]] const Bounds& bounds() const { return bounds_; }
    // The record is this one's alone from now on. Code refused: somebody else has it open as well.
    [[nodiscard]] Result<> take_record() const;
    [[nodiscard]] Images* images() { return images_.get(); }
    // What was odd when the trace was made, a line each.
    [[nodiscard]] const std::string& notes() const { return notes_; }

    // For the constructor, which has to be public for make_unique.
    struct Parts {
        std::unique_ptr<Scratch> scratch;
        Identity identity;
        Bounds bounds;
        std::string notes;
        std::unique_ptr<const Computation> computation;
        tool::Launch launch;
        std::unique_ptr<Images> images;  // null: none are there, and none are to be made
        Cut beginning;                   // where the record begins
        Fd held;                         // locked as long as it isn't to change
    };
    Opened(Parts parts, const Show& show);

  private:
    std::unique_ptr<Scratch> scratch_;
    Identity identity_;
    Bounds bounds_;
    std::string notes_;
    std::unique_ptr<const Computation> computation_;
    std::unique_ptr<Images> images_;
    Fd held_;
    AloneWorld world_;
};

}  // namespace cairn::mpi::debug
