// The passes of a checkpoint of one host's processes, in their order: docs/architecture.md has the table, and
// capture/checkpoint.cpp calls them. What a pass hands on is a value; what it has done to the programs is
// undone when that value goes.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "capture/agent_run.h"
#include "capture/checkpoint.h"
#include "capture/collect/collect.h"
#include "capture/collect/thread_files.h"
#include "capture/loan.h"
#include "capture/memory/areas.h"
#include "capture/memory/earlier.h"
#include "capture/memory/policies.h"
#include "capture/memory/still_pages.h"
#include "capture/memory/store.h"
#include "capture/outsiders.h"
#include "capture/participants.h"
#include "capture/snapshot.h"
#include "capture/stop/stop.h"
#include "common/cpu_level.h"
#include "common/image/page_hashes.h"
#include "resources/capture/objects.h"
#include "resources/memory/capture_ahead.h"
#include "resources/saved/capture_store.h"
#include "resources/saved/schema.h"

namespace cairn::capture {

// What every pass is given.
struct Setting {
    const Request& request;
    SessionRegions& regions;
    Reporter& reporter;
    ToProgram to_program;
};

struct Watching;  // capture/passes/watch.h
class StillOnes;  // capture/passes/copy_still.h
class SmallOnes;  // capture/passes/copy_small.h

// What is known before anything is stopped. It serves all attempts of a checkpoint.
struct Ahead {
    Fd directory;                                        // where the images go
    schema::Manifest manifest;                           // as far as it is known
    std::set<pid_t> wipes;                               // whose memory is marked MADV_WIPEONFORK
    std::set<pid_t> watched;                             // whose memory a userfaultfd watches
    std::map<pid_t, std::vector<ProgramRange>> growing;  // MemoryFlags::growing of each that was looked at
    std::shared_ptr<StillOnes> still;                    // capture/passes/copy_still.h
    std::shared_ptr<SmallOnes> small;                    // capture/passes/copy_small.h
    Outsiders outsiders;                                 // who belongs to the group and has not registered
    std::unique_ptr<ImageWriter>
        objects_writer;                    // what an attempt that was given up has left in it is skipped
    std::unique_ptr<CopiedMemory> copied;  // shared memory that is in the objects image already; null: none
    std::optional<SavedStore> saved;       // --files=save: contents that are there already
    std::unique_ptr<Participants>
        participants;  // who has hooks, and is ready; null: nobody has been asked yet
    // Who is asked for marks; null: nobody is.
    std::shared_ptr<Watching> watching;
    bool again = false;  // an attempt was given up, and may have left files of images
    Clock::time_point began = Clock::now();
};

// The processes of the group, which stand still.
struct Group {
    StoppedGroup stopped;
    std::int32_t np = 0;  // processes of the computation, those on other hosts included
};

// One of them, and what is known of it.
struct Member {
    StoppedProcess* process = nullptr;  // borrowed from the group
    std::optional<AgentRun> own_agent;
    AgentRun* agent =
        nullptr;  // own_agent; or, of a process that traces others, its Tracer's. Null: none yet
    Holder holder;
    schema::Process image;
    Clock::time_point timers_asked;
    CpuLevel cpu_level = CpuLevel::host;  // what its environment keeps it to
    std::uint32_t linker_room = 0;        // common/linker_room.h
    bool raw_ids = false;                 // makes system calls past the library, and sees the kernel's ids
    ProgramRange scratch;                 // memory that the agent has mapped for the siblings
};

// The members, with an agent in each. Whoever is still inside when this goes is brought back out.
class Members {
  public:
    explicit Members(const Setting& setting) : setting_(&setting) {}
    Members(Members&&) = default;
    Members& operator=(Members&&) = delete;
    Members(const Members&) = delete;
    Members& operator=(const Members&) = delete;
    ~Members();

    [[nodiscard]] Result<> leave();  // every agent leaves its process

    std::unique_ptr<ThreadFiles> files;
    std::list<Member> all;
    std::vector<schema::Process> zombies;
    Loans loans;

  private:
    const Setting* setting_;
};

// What is behind descriptors and mappings.
struct FoundObjects {
    ObjectTable table;
    std::vector<StillMap> maps;               // in the order of the members
    std::optional<schema::SavedFiles> saved;  // --files=save
};

// The image of a process that is being written.
struct Draft {
    Member* member = nullptr;       // borrowed
    const StillMap* map = nullptr;  // borrowed
    std::unique_ptr<ImageWriter> writer;
    std::string file;
    std::string label;                // "123 (prog)"
    std::vector<ProgramRange> wiped;  // memory that the copy-on-write child shows as zeros
    std::list<schema::Area> early;    // what had to be stored before the process went on
    std::vector<proc::MapLine>
        uncopied;  // memory that the copy-on-write child hasn't at all (MADV_DONTFORK), with its flags
    std::map<ProgramAddress, MemoryPolicy> policies;  // of that; empty if there is none
    // None: all was stored, or copied, while the process stood still.
    std::unique_ptr<Snapshot> snapshot;
    std::unique_ptr<StillPages> still;  // what was copied; none: nothing was
    std::vector<StoreJob> still_jobs;   // that store it
    // smaps of the process itself, of when it stood still; none: it wasn't read then
    std::optional<std::vector<proc::MapLine>> still_flags;
    std::unique_ptr<EarlierImages> earlier;  // none: everything is stored
    std::vector<ProgramRange> unchanged;     // since the newest of them, as the kernel says
    std::uint64_t image_id = 0;
    bool from_copy = false;  // of its memory, as it was when all stood still
    bool detaches = false;   // which lets go of some of its memory before the program goes on
    // Ahead::growing of it. Null: it wasn't looked at, and the flags of its memory are read before pages.
    const std::vector<ProgramRange>* growing = nullptr;
    std::unique_ptr<PageHashes> hashes = std::make_unique<PageHashes>();
};

using Drafts = std::list<Draft>;

// The clocks of the host when everybody stood still, as the programs see them.
struct Clocks {
    std::int64_t realtime_ns = 0, monotonic_ns = 0, boottime_ns = 0;
};

namespace pass {

[[nodiscard]] Result<Ahead> look_ahead(const Setting& setting);
[[nodiscard]] Result<Group> stop(const Setting& setting, Ahead& ahead);
[[nodiscard]] Result<Members> collect(const Setting& setting, const Ahead& ahead, Group& group);
// Fills in what the members' images say of objects.
[[nodiscard]] Result<FoundObjects> objects(const Setting& setting, Ahead& ahead, const Group& group,
                                           Members& members);
[[nodiscard]] Result<Drafts> fork(const Setting& setting, const Ahead& ahead, Members& members,
                                  const FoundObjects& objects);
[[nodiscard]] Result<Clocks> resume(const Setting& setting, Group& group, Members& members,
                                    const FoundObjects& objects);
// Complete but for the times of the checkpoint itself.
[[nodiscard]] Result<schema::Manifest> write(const Setting& setting, Ahead& ahead, const Group& group,
                                             Members& members, FoundObjects& objects, Drafts& drafts,
                                             const Clocks& clocks);

}  // namespace pass
}  // namespace cairn::capture
