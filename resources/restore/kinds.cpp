#include "resources/restore/kinds.h"

#include <fcntl.h>

namespace cairn::restart {
namespace {

using schema::Object;

// Objects that are opened on their own. An error has to say which object it is of.
template <class Saved, OpenOne<Saved> open>
Result<> one_by_one(Opening& opening) {
    const auto open_one = [&](const Object& object, const Saved& saved) -> Result<> {
        const Fd fd = TRY(open(opening, object, saved));
        if (::fcntl(fd.get(), F_SETFL, object.flags & ~O_ASYNC) != 0) return fail_errno("F_SETFL");
        return opening.keep_copy(object, fd.get());
    };
    for (const Object& object : opening.objects.objects)
        if (const auto* saved = object.get<Saved>(); saved != nullptr && !is_late(object))
            CHECK_OK(with_name(object, open_one(object, *saved)));
    return {};
}

struct Kind {
    OpenAll* open = nullptr;
    SetUp* set_up = nullptr;
    BeginWatching* watch = nullptr;
};
#define CAIRN_KIND(saved, capture, restore) {restore},
#define OPEN(saved, function) .open = one_by_one<schema::saved, function>,
#define OPEN_ALL(function) .open = (function),
#define SET_UP(function) .set_up = (function),
#define WATCH(function) .watch = (function),
constexpr Kind kinds[] = {CAIRN_KINDS(CAIRN_KIND)};
#undef CAIRN_KIND
#undef OPEN
#undef OPEN_ALL
#undef SET_UP
#undef WATCH

const Kind& line_of(const Object& object) {
    return kinds[object.what.index()];
}

}  // namespace

Result<> with_name(const Object& object, Result<> done) {
    if (done) return done;
    return std::unexpected(
        std::move(done.error()).in(object.path.empty() ? schema::kind_of(object) : object.path));
}

std::map<std::int64_t, Group> groups(const schema::Objects& objects, std::int64_t (*id_of)(const Object&)) {
    std::map<std::int64_t, Group> found;
    for (const Object& object : objects.objects)
        if (const std::int64_t id = id_of(object); id >= 0) found[id].push_back(&object);
    return found;
}

Result<> open_kinds(Opening& opening) {
    for (const Kind& kind : kinds)
        if (kind.open != nullptr) CHECK_OK(kind.open(opening));
    return {};
}

Result<> set_up_kind(const Object& object, int fd, AfterForest& after) {
    const Kind& kind = line_of(object);
    return kind.set_up == nullptr ? Result<>() : kind.set_up(object, fd, after);
}

bool is_watcher(const Object& object) {
    return line_of(object).watch != nullptr;
}

Result<> begin_watching(const Object& object, int fd, const ObjectSetOptions& options,
                        const FindObject& find) {
    return line_of(object).watch(object, fd, options, find);
}

}  // namespace cairn::restart
