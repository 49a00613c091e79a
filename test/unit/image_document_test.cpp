// Every struct of an image is described whole by its fields(). The tables of docs/image-format.md are made of
// that: which structs there are, which fields each has, and of which type. Sentences in the third column are
// the document's own. CAIRN_WRITE_DOCUMENT=1 in the environment makes the tables anew.
#include <gtest/gtest.h>

#include <boost/pfr/tuple_size.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "common/schema/convert.h"
#include "common/schema/fields.h"
#include "resources/schema/fields.h"

namespace cairn {
namespace {

using schema::convert::IsOptional;
using schema::convert::IsVector;
using schema::convert::Listed;

constexpr const char* format_page = CAIRN_SOURCE_DIR "/docs/image-format.md";

struct Row {
    std::vector<std::string> names;
    std::string type, what;
    [[nodiscard]] std::string text() const {
        std::string list;
        for (const std::string& name : names) list += (list.empty() ? "`" : ", `") + name + "`";
        return fmt::format("| {} | {} |{}", list, type, what.empty() ? " |" : " " + what + " |");
    }
};

template <class T>
std::string struct_name() {
    const std::string_view whole = __PRETTY_FUNCTION__;  // "... [with T = cairn::schema::Tcp; ...]"
    const auto begin = whole.find("T = cairn::schema::") + 19;
    return std::string(whole.substr(begin, whole.find_first_of(";]", begin) - begin));
}

// What each struct's table has to say, by the struct's name; structs within structs included.
class Tables {
  public:
    std::map<std::string, std::vector<Row>> all;
    std::map<std::string, std::size_t> forgotten;  // members of structs that fields() doesn't list
    std::set<std::string> values;                  // of enumerations, which sentences explain

    template <class T>
    std::string type_of() {
        if constexpr (std::is_same_v<T, bool>)
            return "bool";
        else if constexpr (std::is_integral_v<T>)
            return fmt::format("{}{}", std::is_signed_v<T> ? 'i' : 'u', sizeof(T) * 8);
        else if constexpr (std::is_same_v<T, std::string>)
            return "string";
        else if constexpr (std::is_same_v<T, schema::Bytes>)
            return "bytes";
        else if constexpr (std::is_same_v<T, std::vector<schema::PageRun>>)
            return "page runs";
        else if constexpr (std::is_same_v<T, std::pair<std::uint64_t, std::uint64_t>>)
            return "[address, length]";
        else if constexpr (std::is_enum_v<T>) {
            for (const auto& [value, name] : schema::EnumNames<T>::table) values.emplace(name);
            return "enum";
        } else if constexpr (std::is_array_v<T>)
            return fmt::format("{} {}", std::extent_v<T>, type_of<std::remove_extent_t<T>>());
        else if constexpr (IsOptional<T>::value)
            return "optional " + type_of<typename T::value_type>();
        else if constexpr (IsVector<T>::value)
            return "list of " + type_of<typename T::value_type>();
        else if constexpr (Listed<T>)
            return add<T>();
        else
            return special(static_cast<T*>(nullptr));
    }

    template <class T>
    std::string add() {
        const std::string name = struct_name<T>();
        if (!all.emplace(name, std::vector<Row>()).second) return name;
        std::vector<Row> rows;
        std::size_t listed = 0;  // as aggregate initialisation counts: each element of an array
        T value{};
        schema::fields(value, [&]<class M>(std::string_view field, M&, auto... range) {
            std::string type = type_of<M>();
            ((type += fmt::format(", {} to {}", range.least, range.most)), ...);
            rows.push_back({{std::string(field)}, std::move(type), ""});
            listed += std::is_array_v<M> ? std::extent_v<M> : 1;
        });
        // Its members are lists, in which each socket option has its place.
        if constexpr (!std::is_same_v<T, schema::SocketOptions>)
            if (listed != boost::pfr::tuple_size_v<T>) forgotten[name] = boost::pfr::tuple_size_v<T> - listed;
        all[name] = std::move(rows);
        return name;
    }

  private:
    template <class... Each>
    std::string special(std::variant<Each...>*) {
        std::vector<Row> rows;
        (rows.push_back({{std::string(Each::kind)}, add<Each>(), ""}), ...);
        all["What"] = std::move(rows);
        return "What";
    }
    template <class V>
    std::string special(std::map<std::string, V>*) {
        return "map of " + type_of<V>();
    }
};

std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

Row read_row(const std::string& line) {
    Row row;
    const auto second = line.find('|', 1), third = line.find('|', second + 1);
    std::istringstream names(line.substr(1, second - 1));
    for (std::string name; std::getline(names, name, ',');)
        if (const auto from = name.find('`'); from != std::string::npos)
            row.names.push_back(name.substr(from + 1, name.rfind('`') - from - 1));
    const auto trimmed = [](std::string text) {
        text.erase(0, text.find_first_not_of(' '));
        text.erase(text.find_last_not_of(" |") + 1);
        return text;
    };
    row.type = trimmed(line.substr(second + 1, third - second - 1));
    if (third != std::string::npos) row.what = trimmed(line.substr(third + 1));
    return row;
}

// Rows of the schema: neighbours of one type whose sentence the document shares stay together.
std::vector<Row> merged(const std::vector<Row>& schema, const std::vector<Row>& old) {
    const auto place = [&](const std::string& name) {
        std::size_t at = 0;
        while (at < old.size() && std::ranges::find(old[at].names, name) == old[at].names.end()) ++at;
        return at;
    };
    std::vector<Row> rows;
    std::size_t last = old.size();
    for (const Row& each : schema) {
        const std::size_t at = place(each.names.front());
        if (at < old.size() && at == last && rows.back().type == each.type)
            rows.back().names.push_back(each.names.front());
        else
            rows.push_back({each.names, each.type, at < old.size() ? old[at].what : ""});
        last = at;
    }
    return rows;
}

// The document as it has to be.
std::vector<std::string> made_anew(const std::vector<std::string>& lines,
                                   const std::map<std::string, std::vector<Row>>& tables,
                                   std::set<std::string>& there) {
    std::vector<std::string> result;
    std::string section;
    for (std::size_t i = 0; i < lines.size();) {
        if (lines[i].starts_with("## ")) section.clear();
        if (lines[i].starts_with("### ")) section = lines[i].substr(4);
        const auto table = tables.find(section);
        result.push_back(lines[i]);
        if (!lines[i++].starts_with("|---") || table == tables.end()) continue;
        there.insert(section);
        std::vector<Row> old;
        for (; i < lines.size() && lines[i].starts_with("|"); ++i) old.push_back(read_row(lines[i]));
        for (const Row& row : merged(table->second, old)) result.push_back(row.text());
        section.clear();
    }
    return result;
}

Tables all_tables() {
    Tables tables;
    tables.add<schema::Process>();
    tables.add<schema::Objects>();
    tables.add<schema::Manifest>();
    return tables;
}

// A member that is added to a struct and forgotten in its fields() would be lost in silence.
TEST(ImageDocument, FieldsForgetNoMember) {
    for (const auto& [name, count] : all_tables().forgotten)
        ADD_FAILURE() << "fields() leaves out " << count << " of the members of " << name;
}

TEST(ImageDocument, TablesAreTheSchemas) {
    const Tables tables = all_tables();
    const auto lines = lines_of(format_page);
    std::set<std::string> there;
    const auto wanted = made_anew(lines, tables.all, there);
    for (const auto& [name, rows] : tables.all)
        EXPECT_TRUE(there.contains(name)) << "docs/image-format.md has no table below '### " << name << "'";
    for (const std::string& value : tables.values)
        EXPECT_TRUE(std::ranges::any_of(
            lines,
            [&](const std::string& line) { return line.find("`" + value + "`") != std::string::npos; }))
            << value << " is not in docs/image-format.md";
    if (std::getenv("CAIRN_WRITE_DOCUMENT") != nullptr) {
        std::ofstream file(format_page);
        for (const std::string& line : wanted) file << line << '\n';
        return;
    }
    ASSERT_EQ(lines.size(), wanted.size()) << "CAIRN_WRITE_DOCUMENT=1 makes the tables of the document anew";
    for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i], wanted[i]) << "line " << i + 1;
}

}  // namespace
}  // namespace cairn
