#include "resources/capture/table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "resources/file/schema_identity.h"

namespace cairn::capture {
namespace {

void read_owner(const Table& table, const Description& found, schema::Object& object) {
    f_owner_ex owner{};
    if (::fcntl(found.fd(), F_GETOWN_EX, &owner) == 0 && owner.pid != 0) {
        object.owner_type = owner.type;
        object.owner = table.to_program(owner.pid);
    }
    object.owner_signal = std::max(::fcntl(found.fd(), F_GETSIG), 0);
}

// The object of this description, if a descriptor of it was seen before; else where in `of_inode` it belongs.
struct Place {
    std::int64_t object = -1;
    std::size_t index = 0;
};
Result<Place> find_place(const Table& table, const std::vector<std::int64_t>& of_inode,
                         const Description& found) {
    std::size_t low = 0, high = of_inode.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        const auto order = TRY(compare(found, table.descriptions.at(of_inode[middle])));
        if (order == 0) return Place{of_inode[middle], middle};
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return Place{-1, low};
}

}  // namespace

schema::Object& Table::add(schema::ObjectKind kind) {
    schema::Object& object = objects.emplace_back();
    object.id = static_cast<std::int64_t>(objects.size()) - 1;
    object.kind = kind;
    return object;
}

void Table::external(const std::string& what, const std::string& fate) {
    externals.push_back(what);
    note("{}, outside the group: {}", what, fate);
}

void Table::call(Call whom) {
    if (options.meet)
        calls.push_back(std::move(whom));
    else
        external(whom.what, whom.fate);
}

Result<std::int64_t> Table::enter(Description found) {
    auto& of_inode = known[inode_of(found.status)];
    const auto place = TRY(find_place(*this, of_inode, found));
    if (place.object >= 0) return place.object;
    schema::Object& object = add(schema::ObjectKind::file);
    object.flags = found.flags;
    read_owner(*this, found, object);
    of_inode.insert(of_inode.begin() + static_cast<std::ptrdiff_t>(place.index), object.id);
    found.duplicates = &duplicates;
    const Description& kept = descriptions.emplace(object.id, std::move(found)).first->second;
    duplicates.add(kept);
    CHECK_OK(note_leases(*this, kept));
    if (auto done = describe_object(*this, kept, object); !done)
        return std::unexpected(std::move(done.error()).in(kept.who()));
    return object.id;
}

ObjectTable::ObjectTable(ObjectOptions options) : table_(std::make_unique<Table>()) {
    table_->options = std::move(options);
}
ObjectTable::ObjectTable(ObjectTable&&) noexcept = default;
ObjectTable& ObjectTable::operator=(ObjectTable&&) noexcept = default;
ObjectTable::~ObjectTable() = default;

void ObjectTable::add_member(pid_t id) {
    table_->members.insert(id);
}

Result<std::vector<schema::Descriptor>> ObjectTable::descriptors(const Holder& holder) {
    Table& table = *table_;
    table.members.insert(holder.pid);
    auto numbers = TRY(list_descriptors(holder));
    std::vector<schema::Descriptor> result;
    std::set<std::int64_t> seen;
    for (const int number : numbers) {
        bool close_on_exec = false;
        auto found = TRY(describe(holder, number, close_on_exec));
        const std::size_t before = table.objects.size();
        const Locks locks = locks_of(found);
        auto id = TRY(table.enter(std::move(found)));
        if (seen.insert(id).second)
            add_locks(locks, static_cast<std::size_t>(id) >= before, table.locks[holder.pid]);
        schema::Object& object = table.objects[static_cast<std::size_t>(id)];
        if (number <= 2 && (object.standard < 0 || number < object.standard)) object.standard = number;
        result.push_back({number, id, close_on_exec});
    }
    note_rank(table, holder, result);
    return result;
}

std::vector<schema::FileLock> ObjectTable::take_locks(const Holder& holder) {
    return std::exchange(table_->locks[holder.pid], {});
}

Result<> ObjectTable::capture_contents(ImageWriter& writer) {
    // First: what is on its way through sockets may be anything.
    CHECK_OK(capture_unix_sockets(*table_));
    CHECK_OK(capture_tcp_sockets(*table_));
    if (table_->options.external == ExternalPolicy::refuse && !table_->externals.empty())
        return fail_code(ExitCode::refused, "connected to the outside (--external=refuse):\n{}",
                         fmt::join(table_->externals, "\n"));
    CHECK_OK(capture_pipes(*table_));
    CHECK_OK(capture_mqueues(*table_));
    CHECK_OK(capture_terminals(*table_));
    CHECK_OK(capture_timerfds(*table_));
    CHECK_OK(capture_epolls(*table_));
    finish_pidfds(*table_);
    watch_open_files(*table_);
    CHECK_OK(capture_memory(*table_, writer));
    release();
    return {};
}

void ObjectTable::release() {
    table_->duplicates.forget_all();
    table_->descriptions.clear();
    table_->known.clear();
    table_->memories.clear();
}

Result<> ObjectTable::finish() {
    finish_identities();
    return finish_watches(*table_);
}

void ObjectTable::finish_identities() {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> hashes;
    for (const schema::Object& object : table_->objects)
        if (object.identity.tail_hash != 0)
            hashes[{object.identity.device, object.identity.inode}] = object.identity.tail_hash;
    for (schema::Object& object : table_->objects) {
        schema::FileIdentity& identity = object.identity;
        if (object.kind != schema::ObjectKind::file || !S_ISREG(identity.mode) || object.backing >= 0 ||
            object.deleted || identity.tail_hash != 0 || object.path.starts_with("/proc/") ||
            table_->leased.contains({identity.device, identity.inode}))
            continue;
        std::uint64_t& hash = hashes[{identity.device, identity.inode}];
        if (hash == 0) {
            // It may be another file by now, or written to by somebody outside: then there is no hash to be
            // had.
            const Fd file(::open(object.path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
            struct stat now {};
            if (!file || ::fstat(file.get(), &now) != 0) continue;
            const schema::FileIdentity same = identity_of(now);
            if (same.device != identity.device || same.inode != identity.inode ||
                same.size != identity.size || same.mtime_ns != identity.mtime_ns)
                continue;
            hash = tail_hash(file.get(), identity.size);
        }
        identity.tail_hash = hash;
    }
}

const std::vector<std::string>& ObjectTable::notes() const {
    return table_->notes;
}

const schema::Object& ObjectTable::object(std::int64_t id) const {
    return table_->objects.at(static_cast<std::size_t>(id));
}

schema::Objects ObjectTable::take() {
    release();
    schema::Objects all;
    all.cid = table_->options.cid;
    all.np = table_->options.np;
    all.objects.assign(std::make_move_iterator(table_->objects.begin()),
                       std::make_move_iterator(table_->objects.end()));
    table_->objects.clear();
    return all;
}

}  // namespace cairn::capture
