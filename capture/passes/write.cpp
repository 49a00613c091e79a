// The pass that writes the images from the copy-on-write children while the programs run, and brings them to
// the disk.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "capture/cpu_use.h"
#include "capture/generations.h"
#include "capture/parts.h"
#include "capture/passes/drafts.h"
#include "capture/passes/late_flags.h"
#include "capture/passes/passes.h"
#include "capture/passes/watch.h"
#include "capture/restartable.h"
#include "common/condense.h"
#include "common/each_in_parallel.h"
#include "common/helper_threads.h"
#include "common/human.h"
#include "common/image/manifest.h"
#include "common/schema/json.h"
#include "resources/saved/capture.h"
#include "resources/schema/demands.h"
#include "resources/schema/json.h"

namespace cairn::capture {
namespace {

// How much of all is written.
struct Amount {
    std::uint64_t already = 0, total = 0;
};

// Jobs one behind another that are those of so many images.
struct Batch {
    std::span<const StoreJob> jobs;
    std::set<ImageWriter*> writers;

    [[nodiscard]] std::uint64_t bytes() const {
        std::uint64_t all = 0;
        for (const auto& job : jobs) all += job.range.length();
        return all;
    }
};

// So many images at a time are open as descriptors can be spared for. The jobs of an image stand together.
std::vector<Batch> in_batches(const std::vector<StoreJob>& jobs) {
    constexpr std::size_t most = 64;
    std::vector<Batch> batches;
    for (std::size_t begin = 0, end = 0; begin < jobs.size(); begin = end) {
        auto& batch = batches.emplace_back();
        for (; end < jobs.size() && (batch.writers.size() < most || batch.writers.contains(jobs[end].writer));
             ++end)
            batch.writers.insert(jobs[end].writer);
        batch.jobs = std::span(jobs).subspan(begin, end - begin);
    }
    return batches;
}

Result<> open_images(const Batch& batch) {
    for (auto* writer : batch.writers) CHECK_OK(writer->unpark());
    return {};
}

// The files of a batch are made while the one before it is stored, and one after another: whoever makes a
// file has the folder for himself, and others wait for that at a processor's expense.
Result<> store_in_batches(const std::vector<StoreJob>& jobs, Reporter& reporter, Amount& amount) {
    const auto batches = in_batches(jobs);
    if (batches.empty()) return {};
    auto opened = open_images(batches.front());
    for (std::size_t i = 0; i < batches.size(); ++i) {
        const auto& batch = batches[i];
        CHECK_OK(opened);
        const auto open_next = [&] { opened = open_images(batches[i + 1]); };
        const bool is_last = i + 1 == batches.size();
        auto opener = is_last ? HelperThreads() : helper_threads(1, open_next);
        CHECK_OK(store_pages({batch.jobs.begin(), batch.jobs.end()}, reporter, amount.already, amount.total));
        for (auto* writer : batch.writers) writer->park();
        amount.already += batch.bytes();
        if (!is_last && opener.empty()) open_next();
    }
    return {};
}

// Who of the drafts has memory of whom since a fork: of the parent, if that is stored from a copy-on-write
// child, too, and runs the same program.
class Family {
  public:
    explicit Family(const Drafts& drafts) {
        for (const auto& draft : drafts) by_id_[draft.member->image.pid] = &draft;
    }
    // Null: nobody lends it anything.
    [[nodiscard]] const Draft* lender_of(const Draft& draft) const {
        const auto parent = by_id_.find(draft.member->image.ppid);
        if (parent == by_id_.end() || parent->second == &draft || !is_copied(*parent->second)) return nullptr;
        const bool same = parent->second->member->image.executable == draft.member->image.executable;
        return same ? parent->second : nullptr;
    }
    [[nodiscard]] std::size_t lenders_above(const Draft& draft) const {
        std::size_t count = 0;
        for (const auto* each = lender_of(draft); each != nullptr; each = lender_of(*each)) ++count;
        return count;
    }

    // Of whom there is a copy, of either kind: the others are written already.
    static bool is_copied(const Draft& draft) { return draft.snapshot != nullptr || draft.still != nullptr; }

  private:
    std::map<ProgramId, const Draft*> by_id_;
};

// Where pages of the area may be stored already: the jobs' that read them.
void find_stored(const Draft* parent, Draft& draft, const schema::Area& area, std::span<StoreJob> jobs) {
    if (!seems_borrowable(draft, area)) return;
    for (auto& job : jobs) {
        if (draft.earlier) job.earlier = draft.earlier.get();
        if (parent == nullptr) continue;
        const auto* lent = lending_area(parent->member->image.areas, area, job.range);
        if (lent == nullptr || !seems_borrowable(*parent, *lent)) continue;
        job.lender = Lender{parent->member->image.pid, parent->snapshot ? parent->snapshot->pid() : 0, lent,
                            parent->still.get()};
    }
}

Result<std::vector<StoreJob>> jobs_of(const Family& family, Draft& draft) {
    const Draft* parent = family.lender_of(draft);
    if (draft.still) {
        auto jobs = std::move(draft.still_jobs);
        for (auto& job : jobs) find_stored(parent, draft, *job.area, {&job, 1});
        return jobs;
    }
    std::vector<StoreJob> jobs;
    PageMap pages(draft.snapshot->pid());
    for (auto& area : draft.member->image.areas) {
        const bool early = std::ranges::any_of(draft.early, [&](const auto& other) {
            return other.start <= area.start && area.end <= other.end;
        });
        if (early || !stored_in_image(area)) continue;
        const auto before = jobs.size();
        CHECK_OK(add_jobs(draft, pages, area, jobs));
        find_stored(parent, draft, area, std::span(jobs).subspan(before));
        if (!draft.unchanged.empty()) name_unchanged(draft.unchanged, jobs, before);
    }
    return jobs;
}

// What has to be known of one before its memory is read.
Result<> prepare(const Ahead& ahead, const std::string& before, Draft& draft) {
    if (const auto* copy = draft.snapshot.get())
        CHECK_OK(draft.growing == nullptr ? make_draft_areas(draft, copy->pid())
                                          : lay_out_areas(draft, copy->pid()));
    draft.writer->compress_from_now();  // the programs run again
    auto earlier = earlier_looked_at(ahead, draft.member->image.pid);
    if (earlier == nullptr)
        earlier = std::make_unique<EarlierImages>(ahead.directory.get(), before, draft.member->image.pid);
    if (!earlier->empty()) draft.earlier = std::move(earlier);
    return {};
}

// Parents come before their children, which name pages that their parents have stored.
Result<> store_pages_of(const Setting& setting, const Ahead& ahead, const Drafts& drafts,
                        const std::vector<Draft*>& copied) {
    Reporter& reporter = setting.reporter;
    const auto before = generation_before(setting.request);
    CHECK_OK(
        each_in_parallel(copied.size(), [&](std::size_t i) { return prepare(ahead, before, *copied[i]); }));
    drop_earlier(ahead);
    const Family family(drafts);
    std::vector<std::vector<StoreJob>> of_each(copied.size());
    CHECK_OK(each_in_parallel(copied.size(), [&](std::size_t i) -> Result<> {
        of_each[i] = TRY(jobs_of(family, *copied[i]));
        return {};
    }));
    std::map<std::size_t, std::vector<StoreJob>> rounds;
    Amount amount;
    for (std::size_t i = 0; i < copied.size(); ++i) {
        for (const auto& job : of_each[i]) amount.total += job.range.length();
        auto& round = rounds[family.lenders_above(*copied[i])];
        std::ranges::move(of_each[i], std::back_inserter(round));
    }
    for (const auto& [number, jobs] : rounds) CHECK_OK(store_in_batches(jobs, reporter, amount));
    return {};
}

Result<> store_memory(const Setting& setting, const Ahead& ahead, Drafts& drafts) {
    std::vector<Draft*> copied, seen;  // the others are written already
    for (auto& draft : drafts) {
        if (!Family::is_copied(draft)) continue;
        copied.push_back(&draft);
        if (draft.snapshot == nullptr) continue;
        const auto found = ahead.growing.find(draft.member->process->pid);
        if (found == ahead.growing.end()) continue;
        draft.growing = &found->second;
        seen.push_back(&draft);
    }
    LateFlags flags(std::move(seen));
    const auto stored = store_pages_of(setting, ahead, drafts, copied);
    CHECK_OK(flags.finish());  // says better why memory can't be read
    CHECK_OK(stored);
    for (auto* draft : copied)
        if (draft->snapshot) draft->snapshot->end();
    return {};
}

// Of the copies the kernel takes one first where memory runs out (snapshot.cpp).
Error name_killed_copy(const Drafts& drafts, Error error) {
    for (const auto& draft : drafts) {
        if (draft.snapshot == nullptr) continue;
        const auto stat = proc::stat(draft.snapshot->pid());
        constexpr unsigned long exiting = 4;  // PF_EXITING: its memory has gone, and it is no zombie yet
        if (stat && stat->state != 'Z' && stat->state != 'X' && (stat->flags & exiting) == 0) continue;
        return std::move(error).in(
            fmt::format("the copy of {} from which its memory is written was killed, mostly because memory "
                        "ran out (a limit of the "
                        "container's or the job's?)",
                        proc::label(draft.member->process->pid)));
    }
    return error;
}

// Bytes of the file, which isn't on the disk yet.
Result<std::uint64_t> finish_image(ImageWriter& writer, const schema::Process& process) {
    writer.add_section(SectionType::meta, schema::encode(process));
    CHECK_OK(writer.unpark());
    const auto bytes = TRY(writer.finish(Durable::no));
    writer.park();
    return bytes;
}

Result<std::uint64_t> finish_draft(Draft& draft) {
    if (!draft.hashes->empty())
        draft.writer->add_section(SectionType::page_hashes, draft.hashes->to_section());
    return finish_image(*draft.writer, draft.member->image);
}

Result<> sync_image(ImageWriter& writer) {
    CHECK_OK(writer.unpark());
    return writer.sync();
}

// Of each how many bytes it has. All are written before the first is waited for: the disk, which has begun
// with each by then, takes the requests of many images at once.
Result<std::vector<std::uint64_t>> finish_drafts(Drafts& drafts) {
    std::vector<Draft*> all;
    for (auto& draft : drafts) all.push_back(&draft);
    std::vector<std::uint64_t> bytes(all.size());
    const auto finish = [&](std::size_t i) -> Result<> {
        bytes[i] = TRY(finish_draft(*all[i]));
        return {};
    };
    // Network file systems wait for the server where a file is closed.
    CHECK_OK(each_in_parallel(all.size(), finish, Work::waits_for_disk, 2));
    const auto bring_to_disk = [&](std::size_t i) {
        auto synced = sync_image(*all[i]->writer);
        all[i]->writer.reset();
        return synced;
    };
    CHECK_OK(each_in_parallel(all.size(), bring_to_disk, Work::waits_for_disk, 2));
    return bytes;
}

void list_image(const schema::Process& process, const std::string& file, std::uint64_t bytes,
                schema::Manifest& manifest) {
    manifest.images.push_back({file, process.uid, process.pid, process.name, bytes, 0});
    manifest.bytes += bytes;
}

Result<std::vector<schema::Process>> finish_processes(const Ahead& ahead, Members& members, Drafts& drafts,
                                                      schema::Manifest& manifest) {
    const auto bytes = TRY(finish_drafts(drafts));
    std::vector<schema::Process> processes;
    for (auto size = bytes.begin(); auto& draft : drafts) {
        list_image(draft.member->image, draft.file, *size++, manifest);
        if (draft.earlier) std::ranges::move(draft.earlier->finish(), std::back_inserter(manifest.earlier));
        processes.push_back(std::move(draft.member->image));
    }
    for (auto& zombie : members.zombies) {
        zombie.cid = manifest.cid;
        zombie.np = manifest.np;
        const auto file = fmt::format("z{}.image", zombie.pid);
        auto writer = TRY(ImageWriter::create(ahead.directory.get(), file, ImageKind::process));
        list_image(zombie, file, TRY(finish_image(writer, zombie)), manifest);
        CHECK_OK(sync_image(writer));
        processes.push_back(std::move(zombie));
    }
    return processes;
}

Result<> finish_objects(ImageWriter& writer, const std::vector<schema::Process>& processes,
                        const schema::Objects& objects, schema::Manifest& manifest) {
    writer.add_section(SectionType::objects, schema::encode(objects));
    std::vector<const schema::Process*> all;
    for (const auto& process : processes) all.push_back(&process);
    if (auto good = check_demands(all, objects); !good)
        return std::unexpected(
            std::move(good.error())
                .in("a restart would refuse this checkpoint, which is given up; try again"));
    const auto bytes = TRY(writer.finish(Durable::yes));
    manifest.images.push_back({"objects.image", "", {}, "", bytes, 0});
    manifest.bytes += bytes;
    return {};
}

// "123 (prog)", "123 (prog) and 2 others"; "": nobody.
std::string who_needs_ids(const Members& members) {
    std::string first;
    std::uint64_t count = 0;
    for (const auto& member : members.all) {
        if (!member.raw_ids) continue;
        if (count++ == 0) first = fmt::format("{} ({})", member.image.pid, member.image.name);
    }
    return count < 2 ? first : fmt::format("{} and {}", first, human_count(count - 1, "other", "others"));
}

}  // namespace

Result<schema::Manifest> pass::write(const Setting& setting, Ahead& ahead, const Group& group,
                                     Members& members, FoundObjects& objects, Drafts& drafts,
                                     const Clocks& clocks) {
    setting.reporter.phase("write");
    if (auto stored = store_memory(setting, ahead, drafts); !stored)
        return std::unexpected(name_killed_copy(drafts, std::move(stored.error())));
    CHECK_OK(objects.table.finish());
    setting.reporter.phase("sync");
    if (objects.saved) CHECK_OK(finish_saved_files(ahead.directory.get(), *ahead.saved, *objects.saved));
    // A machine that loses power comes back with what its programs wrote in the last half minute missing,
    // though they know that they have written it (ext4: delayed allocation). Files that they have closed
    // count as well, so it is everything.
    if (setting.request.sync_files) ::sync();
    schema::Manifest manifest = ahead.manifest;
    manifest.np = group.np;
    manifest.taken_at_ns = clocks.realtime_ns;
    manifest.monotonic_ns = clocks.monotonic_ns;
    manifest.boottime_ns = clocks.boottime_ns;
    describe_cpu_use(members, manifest, setting.reporter);
    if (objects.saved) manifest.saved_files = objects.saved->files.size();
    manifest.raw_ids = who_needs_ids(members);
    auto object_notes = objects.table.notes();
    const auto table = objects.table.take();
    const auto processes = TRY(finish_processes(ahead, members, drafts, manifest));
    CHECK_OK(finish_objects(*ahead.objects_writer, processes, table, manifest));
    make_parts(processes, table, manifest);
    auto too_many = TRY(too_many_to_restart(processes, table));
    if (!too_many.empty()) setting.reporter.note(std::move(too_many));
    std::vector<std::string> notes = ahead.outsiders.notes();
    for (const auto* more : {&setting.reporter.notes(), &object_notes})
        notes.insert(notes.end(), more->begin(), more->end());
    manifest.notes = within_limit(notes);
    return manifest;
}

}  // namespace cairn::capture
