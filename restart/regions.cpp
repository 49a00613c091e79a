#include "restart/regions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "common/map_region.h"
#include "common/region_copy.h"

namespace cairn::restart {
namespace {

constexpr auto longest_await = std::chrono::seconds(10);

// Nobody but root becomes somebody else.
uid_t region_user(const schema::Process& process, uid_t owner) {
    if (owner != 0) return owner;
    return UserIds{process.uids[0], process.uids[1], process.uids[2]}.region_of(owner);
}

}  // namespace

Result<> Regions::add(const std::string& path, uid_t user, int floor) {
    const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd) return fail_errno("{}", path);
    Region* const region = map_whole_region(fd.get());
    if (region == nullptr) return fail_errno("mapping {}", path);
    SessionRegion one;
    one.user = user;
    one.owners = all_.empty();
    one.region = region;
    one.key = mapped_file(region);
    one.fd = Fd(::fcntl(fd.get(), F_DUPFD, floor));
    if (!one.fd) return fail_errno("duplicating the region's descriptor");
    all_.push_back(std::move(one));
    return {};
}

Result<> Regions::open(const Session& session, const std::vector<schema::Process>& processes, int floor) {
    const uid_t owner = ::geteuid();
    CHECK_OK(add(session.region(), owner, floor));
    std::set<uid_t> others;
    for (const auto& process : processes)
        if (const uid_t user = region_user(process, owner); user != owner) others.insert(user);
    if (others.empty()) return {};
    auto client = TRY(CoordinatorClient::connect(session));
    for (const uid_t user : others) {
        auto answer = client.ask({{"verb", "region"}, {"user", user}}, {}, longest_await);
        if (!answer)
            return std::unexpected(std::move(answer.error()).in(fmt::format("the region of user {}", user)));
        CHECK_OK(add(answer->value("path", ""), user, floor));
    }
    return {};
}

const SessionRegion& Regions::of(const schema::Process& process) const {
    // Who asks may be somebody else than the tool by now.
    const uid_t user = region_user(process, all_.front().user);
    const auto found = std::ranges::find(all_, user, &SessionRegion::user);
    return found == all_.end() ? all_.front() : *found;
}

void Regions::share_names() const {
    for (const SessionRegion& each : all_)
        if (!each.owners) copy_names(owners(), *each.region);
}

void Regions::close_descriptors() {
    for (SessionRegion& each : all_) each.fd.reset();
}

}  // namespace cairn::restart
