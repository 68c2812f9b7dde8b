//! Requirements of consumers beyond the schema, one function each: profiles that they reject or
//! misread.

use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::profiles::v1development::{Profile, ProfilesDictionary, ValueType};

use crate::check::{Complaints, profiles};
use crate::content::attributes;

/// Checks the requirements of all consumers.
pub(crate) fn all(request: &ExportProfilesServiceRequest) -> Complaints {
    let tables = request.dictionary.as_ref().expect("a dictionary");
    [of_any_type(request), elastic(request, tables)].concat()
}

/// Checks the requirements of consumers that accept other profiles than on-CPU ones.
pub(crate) fn of_any_type(request: &ExportProfilesServiceRequest) -> Complaints {
    let tables = request.dictionary.as_ref().expect("a dictionary");
    [parca(request), devfiler(tables), pyroscope(request, tables)].concat()
}

/// Dereferences types, resources and scopes without a check; rejects empty profiles; reads inline
/// texts only.
fn parca(request: &ExportProfilesServiceRequest) -> Complaints {
    let mut complaints = Complaints::new();
    for it in &request.resource_profiles {
        if it.resource.is_none() || it.scope_profiles.iter().any(|scope| scope.scope.is_none()) {
            complaints.push("parca: no resource or no scope".into());
        }
    }
    for profile in profiles(request) {
        if profile.sample_type.is_none() || profile.period_type.is_none() {
            complaints.push("parca: no sample type or no period type".into());
        }
        if profile.samples.is_empty() {
            complaints.push("parca: no samples".into());
        }
    }
    complaints
}

/// Rejects a request with other frame types; requires an htlhash in mappings with attributes.
fn devfiler(tables: &ProfilesDictionary) -> Complaints {
    const KNOWN: [&str; 12] = [
        "native",
        "kernel",
        "jvm",
        "perl",
        "cpython",
        "php",
        "ruby",
        "dotnet",
        "v8js",
        "beam",
        "go",
        "abort-marker",
    ];
    let mut complaints = Complaints::new();
    for location in tables.location_table.iter().skip(1) {
        let mut types =
            attributes(tables, &location.attribute_indices).filter(|(key, _)| *key == "profile.frame.type");
        if !types.next().is_some_and(|(_, kind)| KNOWN.contains(&&*kind)) {
            complaints.push(format!("devfiler: frame type of {location:?}"));
        }
    }
    for mapping in tables.mapping_table.iter().filter(|mapping| !mapping.attribute_indices.is_empty()) {
        if !attributes(tables, &mapping.attribute_indices).any(|(key, _)| key.ends_with(".htlhash")) {
            complaints.push("devfiler: mapping without htlhash".into());
        }
    }
    let by_number = |value: &Value| matches!(value, Value::StringValueStrindex(_));
    let values = tables.attribute_table.iter().filter_map(|it| it.value.as_ref()?.value.as_ref());
    complaints.extend(values.filter(|value| by_number(value)).map(|_| "devfiler: text by number".into()));
    complaints
}

/// Multiplies the count by the period; rejects a request with both values and timestamps. Turns
/// resources into labels and rejects a request with too many or too long ones.
fn pyroscope(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Complaints {
    /// The default limit of 30 without four that it adds.
    const LABELS: usize = 26;
    const VALUE: usize = 2048;
    let mut complaints = Complaints::new();
    for resource in request.resource_profiles.iter().filter_map(|it| it.resource.as_ref()) {
        let is_long = |value: &Value| matches!(value, Value::StringValue(text) if text.len() > VALUE);
        let mut values = resource.attributes.iter().filter_map(|pair| pair.value.as_ref()?.value.as_ref());
        if resource.attributes.len() > LABELS || values.any(is_long) {
            complaints.push("pyroscope: labels".into());
        }
    }
    for profile in profiles(request).filter(|profile| is_on_cpu(profile, tables)) {
        if profile.period <= 0 || profile.samples.iter().any(|sample| !sample.values.is_empty()) {
            complaints.push("pyroscope: period, or values beside timestamps".into());
        }
    }
    complaints
}

/// Accepts on-CPU profiles only and makes an event of each timestamp.
fn elastic(request: &ExportProfilesServiceRequest, tables: &ProfilesDictionary) -> Complaints {
    let mut complaints = Complaints::new();
    for profile in profiles(request) {
        let timeless = profile.samples.iter().any(|sample| sample.timestamps_unix_nano.is_empty());
        if !is_on_cpu(profile, tables) || timeless {
            complaints.push("elastic: not on-CPU, or samples without timestamps".into());
        }
    }
    complaints
}

fn is_on_cpu(profile: &Profile, tables: &ProfilesDictionary) -> bool {
    let is = |it: &Option<ValueType>, kind: &str, unit: &str| {
        let string = |index: i32| &*tables.string_table[index as usize];
        it.as_ref().is_some_and(|it| string(it.type_strindex) == kind && string(it.unit_strindex) == unit)
    };
    is(&profile.sample_type, "samples", "count") && is(&profile.period_type, "cpu", "nanoseconds")
}
