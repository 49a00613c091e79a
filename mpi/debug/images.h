// Makes images of ranks while the user goes on, and brings them back: a copy of a rank that sleeps is saved
// by `cairn checkpoint`, and a `cairn restart` lets it find this debugger.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "mpi/debug/cairn_tools.h"
#include "mpi/debug/image_store.h"

namespace cairn::mpi::debug {

class Images {
  public:
    // What went wrong, for the user.
    using Note = std::function<void(const std::string&)>;
    // `most`: bytes on the disk. `spacing`: seconds of running between two of a rank, at least. `scratch`: a
    // folder of this debugger's.
    Images(ImageStore store, std::string scratch, std::uint64_t most, double spacing, Note note)
        : store_(std::move(store)),
          tools_(std::move(scratch)),
          most_(most),
          spacing_(spacing),
          note_(std::move(note)) {}
    Images(const Images&) = delete;
    Images& operator=(const Images&) = delete;
    ~Images();

    [[nodiscard]] const ImageStore& store() const { return store_; }
    [[nodiscard]] bool making() const { return making_; }
    // From now on none is made that isn't asked for by make().
    void only_when_asked() { only_when_asked_ = true; }

    // Whether one of this rank would be worth its disk, and nobody is being saved.
    [[nodiscard]] bool wants(int rank, const Spot& spot, double at);
    // `sleeper`: a copy that goes to sleep, told `image.name`; its socket ends when it sleeps.
    void make(RankProcess sleeper, Image image, const std::string& session);
    // Waits for it. Once this returns it is durable.
    [[nodiscard]] Result<> finish(int rank, const Spot& spot);
    // The record of each rank begins there from now on.
    void begin_at(std::vector<Spot> beginnings) { store_.begin_at(std::move(beginnings)); }
    // The name for the next one.
    [[nodiscard]] static Result<std::array<std::uint64_t, 2>> name();

    // Whether one is written just now, or why none is begun; "": nothing of the kind.
    [[nodiscard]] std::string what_goes_on() const;

    // A session of cairn's for a process whose copies are to be saved, and what it is launched by.
    [[nodiscard]] Result<std::string> session();
    [[nodiscard]] std::vector<std::string> launch_words(const std::string& session) const;
    [[nodiscard]] std::pair<std::string, std::string> folder_of_sessions() const {
        return tools_.folder_of_sessions();
    }

    struct Back {
        RankProcess process;  // it stands, and has said nothing yet
        std::string session;
    };
    // `output`: two pipes, of which it is given the ends to write to. One that can't be brought back is
    // forgotten.
    [[nodiscard]] Result<Back> bring_back(Image image, const Fd (&output)[2]);

  private:
    [[nodiscard]] Result<Back> wake(const Image& image, const Fd (&output)[2]);
    void look(bool wait);
    void tell(const std::string& what);
    void give_up(const std::string& why);

    ImageStore store_;
    CairnTools tools_;
    std::uint64_t most_;
    double spacing_;
    double not_before_ = 0;  // by the clock on the wall
    Note note_;
    bool making_ = store_.making(), only_when_asked_ = false;
    std::string told_;  // the last note
    unsigned sessions_ = 0, failures_ = 0;
    std::set<pid_t> coordinators_;
    struct Saving {
        RankProcess sleeper;
        Image image;
        pid_t tool = -1;
        double since = 0;
    };
    std::optional<Saving> saving_;
};

}  // namespace cairn::mpi::debug
