// A host's part of a checkpoint over several hosts is written into the folder that all share, or beside it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "common/image/manifest.h"
#include "coordinator/folders.h"
#include "coordinator/own_folder.h"
#include "coordinator/publish.h"

namespace cairn::coordinator {

namespace fs = std::filesystem;

std::string folder_of_host(const std::string& host) {
    std::string name;
    for (const char c : host) {
        const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '.' || c == '_' || c == '-';
        name += fine ? c : '_';
    }
    return "host-" + name;
}

Result<PartFolder> begin_part(const std::string& root, const std::string& cid, std::uint32_t generation,
                              const std::string& host) {
    PartFolder part;
    part.whole.root = root;
    part.whole.cid = cid;
    part.whole.generation = generation;
    part.host = folder_of_host(host);
    CHECK_OK(prepare_folder(root, cid));
    remove_leftovers(part.whole.folder());
    // Between mkdir and flock it looks abandoned to another host that is tidying up: then it is gone, or
    // locked until it is.
    for (int tries = 0; tries < 1000; ++tries) {
        if (tries > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        const auto whole = make_folder(part.whole.partial());
        if (!whole && whole.error().number == ENOENT) CHECK_OK(prepare_folder(root, cid));
        if (!whole && whole.error().number != EEXIST && whole.error().number != ENOENT)
            return std::unexpected(Error(whole.error()).in("can't be made"));
        part.whole.lock.reset(::open(part.whole.partial().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!part.whole.lock || ::flock(part.whole.lock.get(), LOCK_SH | LOCK_NB) != 0) continue;
        struct stat locked {
        }, there{};
        if (::fstat(part.whole.lock.get(), &locked) != 0 ||
            ::stat(part.whole.partial().c_str(), &there) != 0 || locked.st_ino != there.st_ino)
            continue;
        const auto made = make_folder(part.partial());
        if (made) return part;
        if (made.error().number == EEXIST)
            return fail(
                "{} is there already: do two hosts of the computation have the name {}? (--host names one)",
                part.partial(), host);
        if (made.error().number != ENOENT) return std::unexpected(Error(made.error()).in("can't be made"));
    }
    return fail("{}: can't be made and locked", part.whole.partial());
}

Result<> seal_part(const PartFolder& part, const schema::Manifest& manifest) {
    const Fd folder(::open(part.partial().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder) return fail_errno("{}", part.partial());
    if (auto written = write_manifest(folder.get(), manifest); !written)
        return std::unexpected(std::move(written.error()).in(part.partial()));
    return sync_folder(part.partial());
}

Result<std::vector<std::string>> publish_part(PartFolder& part, const schema::Manifest& whole) {
    const Partial& partial = part.whole;
    const std::string ours = partial.final() + "/" + part.host + "/manifest.json";
    if (::access(ours.c_str(), F_OK) != 0) {
        if (auto written = write_manifest(partial.lock.get(), whole); !written)
            return std::unexpected(std::move(written.error()).in(partial.partial()));
        const std::string script = partial.partial() + "/restart.sh";
        CHECK_OK(write_file(script, restart_script(whole, cairn_command()), 0700));
        CHECK_OK(sync_folder(partial.partial()));
        if (::rename(partial.partial().c_str(), partial.final().c_str()) != 0)
            return fail_errno("{}: rename from {}", partial.final(), partial.partial());
        CHECK_OK(sync_folder(partial.folder()));
    }
    if (auto led = lead_to(partial.root, partial.cid, partial.generation); !led)
        return std::unexpected(std::move(led.error()).in(partial.final() + " is complete, but"));
    return doubts(partial.final());
}

void abandon_part(PartFolder& part) {
    std::error_code ignored;
    // First the name goes: half a checkpoint must never look like one.
    const std::string final = part.whole.final();
    if (fs::exists(final + "/" + part.host, ignored)) {
        fs::remove(final + "/manifest.json", ignored);
        fs::remove_all(final + "/" + part.host, ignored);
        fs::remove(final + "/restart.sh", ignored);
        ::rmdir(final.c_str());
    }
    fs::remove_all(part.partial(), ignored);
    fs::remove(part.whole.partial() + "/manifest.json", ignored);
    fs::remove(part.whole.partial() + "/restart.sh", ignored);
    ::rmdir(part.whole.partial().c_str());
    part.whole.lock.reset();
    ::rmdir(part.whole.folder().c_str());
    // The links go back to what is complete.
    const auto generations = complete_generations(part.whole.folder());
    if (!generations.empty()) (void)lead_to(part.whole.root, part.whole.cid, generations.back());
}

}  // namespace cairn::coordinator
