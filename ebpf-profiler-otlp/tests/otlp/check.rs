//! The rules of the schema, including those that its reference checker does not check.
//!
//! Each rule is a function that returns complaints, so a test sees which rule is violated.

use std::collections::HashSet;
use std::fmt::Debug;

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary, Sample};
use prost::Message;

/// Violations as text.
pub(crate) type Complaints = Vec<String>;

/// Checks all rules.
pub(crate) fn schema(request: &ExportProfilesServiceRequest) -> Complaints {
    let Some(tables) = &request.dictionary else { return vec!["no dictionary".into()] };
    let mut complaints = zero_elements(tables);
    complaints.extend(ranges(request, tables));
    if !complaints.is_empty() {
        return complaints; // the other rules need valid indices
    }
    complaints.extend(duplicates(tables));
    complaints.extend(orphans(request, tables));
    complaints.extend(attribute_keys(request, tables));
    complaints.extend(mappings(tables));
    complaints.extend(functions(tables));
    complaints.extend(resources(request));
    profiles(request).for_each(|profile| complaints.extend(samples(profile)));
    complaints
}

pub(crate) fn profiles(request: &ExportProfilesServiceRequest) -> impl Iterator<Item = &Profile> {
    let scopes = request.resource_profiles.iter().flat_map(|resource| &resource.scope_profiles);
    scopes.flat_map(|scope| &scope.profiles)
}

fn all_samples(request: &ExportProfilesServiceRequest) -> impl Iterator<Item = &Sample> {
    profiles(request).flat_map(|profile| &profile.samples)
}

/// Index 0 of every table is the zero value.
fn zero_elements(tables: &ProfilesDictionary) -> Complaints {
    fn is_zero<T: Default + PartialEq>(table: &[T]) -> bool {
        table.first() == Some(&T::default())
    }
    let zeros = [
        ("mapping", is_zero(&tables.mapping_table)),
        ("location", is_zero(&tables.location_table)),
        ("function", is_zero(&tables.function_table)),
        ("link", is_zero(&tables.link_table)),
        ("string", is_zero(&tables.string_table)),
        ("attribute", is_zero(&tables.attribute_table)),
        ("stack", is_zero(&tables.stack_table)),
    ];
    zeros
        .iter()
        .filter(|(_, zero)| !zero)
        .map(|(name, _)| format!("{name} 0 is not the zero value"))
        .collect()
}

/// The indices of each table that occur in samples and tables.
#[derive(Debug, Default)]
struct Used {
    mappings: HashSet<i32>,
    locations: HashSet<i32>,
    functions: HashSet<i32>,
    links: HashSet<i32>,
    strings: HashSet<i32>,
    attributes: HashSet<i32>,
    stacks: HashSet<i32>,
}

impl Used {
    fn by(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Used {
        let mut used = Used::default();
        profiles(request).for_each(|profile| used.profile(profile));
        all_samples(request).for_each(|sample| used.sample(sample));
        used.stacks_and_locations(tables);
        for mapping in &tables.mapping_table {
            used.strings.insert(mapping.filename_strindex);
            used.attributes.extend(&mapping.attribute_indices);
        }
        for it in &tables.function_table {
            used.strings.extend([it.name_strindex, it.system_name_strindex, it.filename_strindex]);
        }
        for it in &tables.attribute_table {
            used.strings.extend([it.key_strindex, it.unit_strindex]);
        }
        used
    }

    fn profile(&mut self, profile: &Profile) {
        for it in [&profile.sample_type, &profile.period_type].into_iter().flatten() {
            self.strings.extend([it.type_strindex, it.unit_strindex]);
        }
        self.attributes.extend(&profile.attribute_indices);
    }

    fn sample(&mut self, sample: &Sample) {
        self.stacks.insert(sample.stack_index);
        self.links.insert(sample.link_index);
        self.attributes.extend(&sample.attribute_indices);
    }

    fn stacks_and_locations(&mut self, tables: &ProfilesDictionary) {
        self.locations.extend(tables.stack_table.iter().flat_map(|stack| &stack.location_indices));
        for location in &tables.location_table {
            self.mappings.insert(location.mapping_index);
            self.attributes.extend(&location.attribute_indices);
            self.functions.extend(location.lines.iter().map(|line| line.function_index));
        }
    }

    fn with_lengths<'a>(
        &'a self,
        tables: &ProfilesDictionary,
    ) -> [(&'static str, &'a HashSet<i32>, usize); 7] {
        [
            ("mapping", &self.mappings, tables.mapping_table.len()),
            ("location", &self.locations, tables.location_table.len()),
            ("function", &self.functions, tables.function_table.len()),
            ("link", &self.links, tables.link_table.len()),
            ("string", &self.strings, tables.string_table.len()),
            ("attribute", &self.attributes, tables.attribute_table.len()),
            ("stack", &self.stacks, tables.stack_table.len()),
        ]
    }
}

/// All indices are within their tables.
fn ranges(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Complaints {
    let used = Used::by(request, tables);
    let outside = |(name, indices, len): (&str, &HashSet<i32>, usize)| {
        let bad = indices.iter().find(|&&index| index < 0 || index as usize >= len)?;
        Some(format!("{name} {bad} of {len}"))
    };
    used.with_lengths(tables).into_iter().filter_map(outside).collect()
}

/// All elements of tables are used.
fn orphans(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Complaints {
    let used = Used::by(request, tables);
    let unused = |(name, indices, len): (&str, &HashSet<i32>, usize)| {
        let orphan = (1..len as i32).find(|index| !indices.contains(index))?;
        Some(format!("{name} {orphan} is an orphan"))
    };
    used.with_lengths(tables).into_iter().filter_map(unused).collect()
}

/// Finds equal elements in a table. They refer to others by index, so elements that differ are
/// different values.
fn duplicates(tables: &ProfilesDictionary) -> Complaints {
    fn check<T>(name: &str, table: &[T], bytes: impl Fn(&T) -> Vec<u8>) -> Option<String> {
        let mut seen = HashSet::new();
        let double = table.iter().position(|element| !seen.insert(bytes(element)))?;
        Some(format!("{name} {double} is a duplicate"))
    }
    fn message<T: Message>(element: &T) -> Vec<u8> {
        element.encode_to_vec()
    }
    let checks = [
        check("mapping", &tables.mapping_table, message),
        check("location", &tables.location_table, message),
        check("function", &tables.function_table, message),
        check("link", &tables.link_table, message),
        check("string", &tables.string_table, |text| text.clone().into_bytes()),
        check("attribute", &tables.attribute_table, message),
        check("stack", &tables.stack_table, message),
    ];
    checks.into_iter().flatten().collect()
}

/// No list of attributes has a key twice.
fn attribute_keys(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Complaints {
    let lists = all_samples(request).map(|sample| &sample.attribute_indices);
    let lists = lists.chain(tables.mapping_table.iter().map(|mapping| &mapping.attribute_indices));
    let lists = lists.chain(tables.location_table.iter().map(|location| &location.attribute_indices));
    let double = |list: &Vec<i32>| {
        let mut keys = HashSet::new();
        let key = |&index: &i32| tables.attribute_table[index as usize].key_strindex;
        list.iter().map(key).any(|key| key == 0 || !keys.insert(key))
    };
    lists.filter(|list| double(list)).map(|list| format!("keys of {list:?} are not unique")).collect()
}

/// Mappings have a range or none, and at least the build id that every file has.
fn mappings(tables: &ProfilesDictionary) -> Complaints {
    let mut complaints = Complaints::new();
    for mapping in tables.mapping_table.iter().skip(1) {
        let (start, limit) = (mapping.memory_start, mapping.memory_limit);
        if start >= limit && (start, limit) != (0, 0) {
            complaints.push(format!("mapping from {start:#x} to {limit:#x}"));
        }
        let mut attributes = crate::content::attributes(tables, &mapping.attribute_indices);
        if !attributes.any(|(key, id)| key == "process.executable.build_id.htlhash" && id.len() == 32) {
            complaints.push("mapping without htlhash".into());
        }
    }
    for it in tables.location_table.iter().filter(|it| it.mapping_index != 0) {
        let mapping = &tables.mapping_table[it.mapping_index as usize];
        if mapping.memory_limit != 0 && !(mapping.memory_start..=mapping.memory_limit).contains(&it.address) {
            complaints.push(format!("address {:#x} outside of its mapping", it.address));
        }
    }
    complaints
}

/// Functions have some name, lines are not negative.
fn functions(tables: &ProfilesDictionary) -> Complaints {
    let nameless = |it: &&opentelemetry_proto::tonic::profiles::v1development::Function| {
        it.name_strindex == 0 && it.system_name_strindex == 0 && it.filename_strindex == 0
            || it.start_line < 0
    };
    let functions = tables.function_table.iter().skip(1).filter(nameless);
    let lines = tables.location_table.iter().flat_map(|location| &location.lines);
    let lines = lines.filter(|line| line.function_index == 0 || line.line < 0 || line.column < 0);
    functions.map(complaint).chain(lines.map(complaint)).collect()
}

fn complaint(what: &impl Debug) -> String {
    format!("{what:?}")
}

/// No key or value is empty; keys in resources are inline and unique.
fn resources(request: &ExportProfilesServiceRequest) -> Complaints {
    let mut complaints = Complaints::new();
    if request.resource_profiles.is_empty() {
        complaints.push("no resource profiles".into());
    }
    for it in &request.resource_profiles {
        let attributes = it.resource.iter().flat_map(|resource| &resource.attributes);
        let mut keys = HashSet::new();
        for pair in attributes {
            if pair.key.is_empty()
                || pair.key_strindex != 0
                || pair.value.is_none()
                || !keys.insert(&pair.key)
            {
                complaints.push(format!("resource attribute {pair:?}"));
            }
        }
        if it.scope_profiles.is_empty() || it.scope_profiles.iter().any(|scope| scope.profiles.is_empty()) {
            complaints.push("empty scope or no scope".into());
        }
    }
    complaints
}

/// Samples have one shape and distinct identities, and timestamps within the profile's range.
fn samples(profile: &Profile) -> Complaints {
    let range = profile.time_unix_nano..profile.time_unix_nano + profile.duration_nano;
    let mut complaints = Complaints::new();
    let mut identities = HashSet::new();
    for sample in &profile.samples {
        let mut attributes = sample.attribute_indices.clone();
        attributes.sort_unstable();
        if !identities.insert((sample.stack_index, sample.link_index, attributes)) {
            complaints.push("two samples with one identity".into());
        }
        if sample.timestamps_unix_nano.iter().any(|time| !range.contains(time)) {
            complaints.push(format!("timestamp outside of {range:?}"));
        }
        complaints.extend(shape(sample, &profile.samples[0]));
    }
    if !matches!(profile.profile_id.len(), 0 | 16) {
        complaints.push("profile id".into());
    }
    if profile.original_payload.is_empty() != profile.original_payload_format.is_empty() {
        complaints.push("original payload without its format, or the other way round".into());
    }
    complaints
}

fn shape(sample: &Sample, first: &Sample) -> Option<String> {
    let (values, times) = (sample.values.len(), sample.timestamps_unix_nano.len());
    let fine = match (values, times) {
        (0, 0) => false,
        (0, _) => true,
        (_, 0) => values == 1,
        _ => values == times,
    };
    let same = |a: usize, b: usize| (a == 0) == (b == 0);
    let alike = same(values, first.values.len()) && same(times, first.timestamps_unix_nano.len());
    (!fine || !alike).then(|| format!("shape: {values} values, {times} timestamps"))
}
