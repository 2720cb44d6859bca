//! `fumehood key`: the keys that sign what is published.

use anyhow::Result;
use fumehood_registry::signature::{PublicKey, SigningKey};
use serde_json::{Value, json};

use crate::args::{self, Arguments, Key, KeyPlaceArguments};
use crate::exit::Exit;
use crate::render;
use crate::signing_key::{KeyFiles, new_passphrase, open_key};

pub(crate) fn run(arguments: &Arguments, key: &Key) -> Result<Exit> {
    match key {
        Key::New(new) => make(arguments, new),
        Key::Export(export) => print_public(arguments, export),
        Key::Import(import) => take_over(arguments, import),
        Key::List => list(arguments),
    }
}

fn make(arguments: &Arguments, new: &args::NewKey) -> Result<Exit> {
    let files = files(&new.place)?;
    files.check_absent()?;
    let passphrase = new_passphrase(&format!("the key `{}`", files.name), &new.passphrase)?;
    let key = SigningKey::generate(new.algorithm.into())?;
    files.write(&key, &passphrase)?;
    report(arguments, "made", &files, key.public())
}

fn take_over(arguments: &Arguments, import: &args::ImportKey) -> Result<Exit> {
    let files = files(&import.place)?;
    files.check_absent()?;
    let (key, passphrase) = open_key(&import.file, &import.file.display().to_string(), &import.passphrase)?;
    let passphrase = match passphrase {
        Some(passphrase) => passphrase,
        None => new_passphrase(&format!("the key `{}`", files.name), &import.passphrase)?,
    };
    files.write(&key, &passphrase)?;
    report(arguments, "took over", &files, key.public())
}

fn files(place: &KeyPlaceArguments) -> Result<KeyFiles> {
    Ok(match &place.out {
        Some(file) => KeyFiles::at(file)?,
        None => KeyFiles::named(&place.name)?,
    })
}

fn print_public(arguments: &Arguments, export: &args::ExportKey) -> Result<Exit> {
    let files = KeyFiles::find(&export.key)?;
    let public = files.public_key(&export.passphrase)?;
    if arguments.json {
        render::json(&to_json(&files, Some(&public)))?;
        return Ok(Exit::Ok);
    }
    render::bytes(public.to_pem().as_bytes())?;
    let id = public.id();
    let line = String::from(public);
    render::note(&format!(
        "the id of this key is {id}; people who trust it add this to fumehood.toml: [registry] trusted_keys = [\"{line}\"]"
    ));
    Ok(Exit::Ok)
}

fn list(arguments: &Arguments) -> Result<Exit> {
    let keys = KeyFiles::list()?;
    if arguments.json {
        let rows = keys.iter().map(|files| to_json(files, files.stored_public_key().ok().flatten().as_ref()));
        render::json(&rows.collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    if keys.is_empty() {
        render::note("you have no keys; create one with `fumehood key new`");
    }
    let width = keys.iter().map(|files| files.name.len()).max().unwrap_or_default();
    for files in &keys {
        let public = match files.stored_public_key() {
            Ok(Some(key)) => format!("{:<7} {}", key.algorithm().to_string(), key.id()),
            _ => "its public key is missing".to_owned(),
        };
        let name = &files.name;
        let path = files.private.display().to_string();
        render::line(&format!("{name:<width$}  {public}  {path}"))?;
    }
    Ok(Exit::Ok)
}

fn report(arguments: &Arguments, done: &str, files: &KeyFiles, public: &PublicKey) -> Result<Exit> {
    if arguments.json {
        render::json(&to_json(files, Some(public)))?;
        return Ok(Exit::Ok);
    }
    let name = &files.name;
    let private_path = files.private.display();
    let public_path = files.public.display();
    let lines = [
        format!("{done} the key `{name}` ({}), encrypted with your passphrase", public.algorithm()),
        format!("  private  {private_path}  keep it secret, and keep a backup"),
        format!("  public   {public_path}  for people who trust your tools"),
        format!("  id       {}", public.id()),
        format!("next: fumehood publish oci://HOST/NAME:TAG --sign {name}"),
    ];
    lines.iter().try_for_each(|line| render::line(line))?;
    Ok(Exit::Ok)
}

fn to_json(files: &KeyFiles, public: Option<&PublicKey>) -> Value {
    json!({
        "name": files.name,
        "private": files.private.display().to_string(),
        "public": files.public.display().to_string(),
        "algorithm": public.map(PublicKey::algorithm),
        "id": public.map(|key| key.id().to_string()),
        "pem": public.map(PublicKey::to_pem),
        "key": public.map(|key| String::from(key.clone())),
    })
}
